"""Tests the chart: with both majors of Helm, and with the programs that use its output."""

"""Tests of the images, the chart's pod, the sidecar and compose, by a real container engine."""

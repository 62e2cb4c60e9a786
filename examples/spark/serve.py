"""The program, as spark-submit wants it: a file.

spark-submit --master 'local[8]' examples/spark/serve.py serve --engine=spark --clusters=examples/spark/clusters.yaml
"""

import sys

from exporter.cli import main

if __name__ == "__main__":
    sys.exit(main())

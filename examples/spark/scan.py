"""One scan of a fleet, or one in every interval, into a Parquet table; for spark-submit.

    spark-submit --master 'local[8]' examples/spark/scan.py --clusters=clusters.yaml --table=/data/scans

With --checkpoint it is a stream that goes on until it is stopped; without, one scan is appended.
"""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession

from exporter.fleet.data_source import NAME, KafkaTransactions


def main() -> None:
    """Read the options, and write."""
    parser = argparse.ArgumentParser(description="Scan Kafka clusters into a Parquet table.")
    parser.add_argument("--clusters", required=True, help="a fleet's file")
    parser.add_argument("--table", required=True, help="a folder that Spark can write to")
    parser.add_argument("--checkpoint", help="of the stream; its folder must outlive a restart")
    parser.add_argument("--interval", default="30s", help="of the stream: from one scan to the next")
    given = parser.parse_args()
    spark = SparkSession.builder.appName("kafka-transactions-scan").getOrCreate()
    spark.dataSource.register(KafkaTransactions)
    if given.checkpoint is None:
        scan = spark.read.format(NAME).option("clusters", given.clusters).load()
        scan.write.mode("append").parquet(given.table)
        return
    stream = spark.readStream.format(NAME).option("clusters", given.clusters).option("scan.interval", given.interval)
    written = stream.load().writeStream.format("parquet").option("checkpointLocation", given.checkpoint)
    written.start(given.table).awaitTermination()


if __name__ == "__main__":
    main()

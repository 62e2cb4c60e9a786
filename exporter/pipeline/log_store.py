"""Delta's log in S3 with conditional writes, which Delta's own class for it (4.4.0) does not have: two would overwrite.

`S3SingleDriverLogStore` looks whether the commit's file exists, and then writes it: two processes that look at the same
time both succeed, and one commit is lost. S3A has the condition (`If-None-Match`) for its builder `createFile` alone. So a
class of a few lines uses it; Spark's own compiler of queries compiles it. It goes when Delta has its own (delta-io/delta,
pull request 7367).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

LOG_STORE_SETTINGS: Final = {"spark.delta.logStore.s3a.impl": "kafka_transaction_exporter.ConditionalLogStore"}
_SOURCE: Final = """
package kafka_transaction_exporter;

import io.delta.storage.CloseableIterator;
import io.delta.storage.S3SingleDriverLogStore;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.RemoteFileChangedException;

public class ConditionalLogStore extends S3SingleDriverLogStore {
    public ConditionalLogStore(Configuration configuration) { super(configuration); }

    public void write(Path path, CloseableIterator lines, Boolean overwrite, Configuration configuration)
            throws IOException {
        if (overwrite.booleanValue()) {
            super.write(path, lines, overwrite, configuration);
            return;
        }
        FSDataOutputStreamBuilder builder = path.getFileSystem(configuration).createFile(path);
        builder.overwrite(false);
        builder.must("fs.option.create.conditional.overwrite", true);
        try {
            FSDataOutputStream stream = (FSDataOutputStream) builder.build();
            while (lines.hasNext()) {
                stream.write((lines.next() + "\\n").getBytes(StandardCharsets.UTF_8));
            }
            stream.close();
        } catch (RemoteFileChangedException exists) {
            throw new FileAlreadyExistsException(path.toString());
        } catch (org.apache.hadoop.fs.FileAlreadyExistsException exists) {
            throw new FileAlreadyExistsException(path.toString());
        }
    }
}
"""


def load_log_store(spark: Any, folder: Path) -> None:
    """Makes the class known to Spark's driver, which commits, and to its workers, which write checkpoints."""
    java = spark._jvm  # noqa: SLF001 - PySpark has no other access to Java
    loader = java.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    compiler = java.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(loader)
    compiler.cook(_SOURCE)
    jar = folder / "log-store.jar"
    with ZipFile(jar, "w") as classes:
        for name, code in compiler.getBytecodes().items():
            classes.writestr(f"{name.replace('.', '/')}.class", bytes(code))
    loader.addURL(java.java.io.File(str(jar)).toURI().toURL())
    spark.sparkContext._jsc.addJar(str(jar))  # noqa: SLF001 - likewise

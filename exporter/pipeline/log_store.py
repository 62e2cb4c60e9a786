"""Delta's log in S3 and on a disk so that of two commits of one version the second fails, where Delta's own overwrites.

Delta's own classes (4.4.0) look whether the commit's file exists, and then write or rename it: two processes that look at
the same time both succeed, and one commit is lost. S3A has the condition (`If-None-Match`) for its builder `createFile`
alone; on a disk a hard link is made once. So two classes of a few lines use them; Spark's own compiler of queries compiles
them. That of S3 goes when Delta has its own (delta-io/delta, pull request 7367).
"""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import Any, Final
from zipfile import ZipFile

LOG_STORE_SETTINGS: Final = {
    "spark.delta.logStore.s3a.impl": "kafka_transaction_exporter.ConditionalLogStore",
    "spark.delta.logStore.file.impl": "kafka_transaction_exporter.LinkLogStore",
}
_CLASS: Final = Template("""
package kafka_transaction_exporter;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.OpenOption;
import java.nio.file.Paths;
import java.util.Iterator;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.Path;

public class $name extends io.delta.storage.$base {
    public $name(Configuration configuration) { super(configuration); }

    @Override
    public void write(Path path, Iterator lines, Boolean overwrite, Configuration configuration)
            throws IOException {
        if (overwrite.booleanValue()) {
            super.write(path, lines, overwrite, configuration);
            return;
        }
        StringBuilder text = new StringBuilder();
        while (lines.hasNext()) {
            text.append(lines.next()).append("\\n");
        }
        byte[] commit = text.toString().getBytes(StandardCharsets.UTF_8);
$body
    }
}
""")
_LINK: Final = _CLASS.substitute(
    name="LinkLogStore",
    base="HDFSLogStore",
    body="""
        java.nio.file.Path file = Paths.get(path.toUri());
        java.nio.file.Path whole = file.resolveSibling("." + file.getFileName() + "." + UUID.randomUUID() + ".tmp");
        Files.write(whole, commit, new OpenOption[0]);
        try {
            Files.createLink(file, whole);
        } finally {
            Files.delete(whole);
        }
""",
)
_CONDITIONAL: Final = _CLASS.substitute(
    name="ConditionalLogStore",
    base="S3SingleDriverLogStore",
    body="""
        FSDataOutputStreamBuilder builder = path.getFileSystem(configuration).createFile(path);
        builder.overwrite(false);
        builder.must("fs.option.create.conditional.overwrite", true);
        try {
            FSDataOutputStream stream = (FSDataOutputStream) builder.build();
            stream.write(commit);
            stream.close();
        } catch (org.apache.hadoop.fs.s3a.RemoteFileChangedException exists) {
            throw new FileAlreadyExistsException(path.toString());
        } catch (org.apache.hadoop.fs.FileAlreadyExistsException exists) {
            throw new FileAlreadyExistsException(path.toString());
        }
""",
)


def load_log_store(spark: Any, folder: Path, *, in_s3: bool) -> None:
    """Makes the classes known to Spark's driver, which commits, and to its workers, which write checkpoints."""
    java = spark._jvm  # noqa: SLF001 - PySpark has no other access to Java
    loader = java.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    jar = folder / "log-store.jar"
    with ZipFile(jar, "w") as classes:
        for source in (_LINK, _CONDITIONAL) if in_s3 else (_LINK,):  # without its connector S3's does not compile
            compiler = java.org.codehaus.janino.SimpleCompiler()
            compiler.setParentClassLoader(loader)
            compiler.cook(source)
            for name, code in compiler.getBytecodes().items():
                classes.writestr(f"{name.replace('.', '/')}.class", bytes(code))
    loader.addURL(java.java.io.File(str(jar)).toURI().toURL())
    spark.sparkContext._jsc.addJar(str(jar))  # noqa: SLF001 - likewise

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.TopicPartition;

/** Java's AdminClient: describeProducers over every partition, once a line of standard input. */
public final class ScanJavaAdmin {
    public static void main(String[] arguments) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in));
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            var topics = Arrays.asList(arguments).subList(1, arguments.length);
            List<TopicPartition> partitions = new ArrayList<>();
            for (TopicDescription topic : admin.describeTopics(topics).allTopicNames().get().values()) {
                topic.partitions().forEach(p -> partitions.add(new TopicPartition(topic.name(), p.partition())));
            }
            while (lines.readLine() != null) {
                long began = System.nanoTime();
                var told = admin.describeProducers(partitions).all().get();
                double wall = (System.nanoTime() - began) / 1e6;
                long entries = told.values().stream().mapToLong(state -> state.activeProducers().size()).sum();
                System.out.printf("{\"wall_ms\": %.3f, \"entries\": %d}%n", wall, entries);
            }
        }
    }
}

import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.TopicPartition;

/** Java's AdminClient: describeProducers over every partition, once a line of standard input. */
public final class ScanJavaAdmin {
    public static void main(String[] arguments) throws Exception {
        var system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        var lines = new BufferedReader(new InputStreamReader(System.in));
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            while (lines.readLine() != null) {
                long wall = System.nanoTime();
                long cpu = system.getProcessCpuTime();
                long entries = scan(admin);
                System.out.printf("{\"wall_ms\": %.3f, \"cpu_ms\": %.3f, \"entries\": %d}%n",
                    (System.nanoTime() - wall) / 1e6, (system.getProcessCpuTime() - cpu) / 1e6, entries);
            }
        }
    }

    private static long scan(Admin admin) throws Exception {
        Set<String> topics = admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get();
        List<TopicPartition> partitions = new ArrayList<>();
        for (TopicDescription topic : admin.describeTopics(topics).allTopicNames().get().values()) {
            topic.partitions().forEach(p -> partitions.add(new TopicPartition(topic.name(), p.partition())));
        }
        return admin.describeProducers(partitions).all().get().values().stream()
            .mapToLong(state -> state.activeProducers().size()).sum();
    }
}

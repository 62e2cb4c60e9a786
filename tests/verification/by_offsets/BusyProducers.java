import java.io.FileOutputStream;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Transactions of five ids that stay, and of ids that come and never come again, until the process is killed. In Java, since
 * librdkafka 2.16 is a client of TransactionVersion 0 only.
 *
 * <p>Arguments: bootstrap servers, topic, its partitions, how many of them have hangs, seed, journal. Each transaction is a
 * line of the journal: id, begin and end in ms, its partitions as bits, outcome. A transaction that failed or was left open
 * ends when the next producer of its id is initialised, or at its time-out if there is none.
 */
public final class BusyProducers {
    static final int BUSY = 5;
    static final double ELSEWHERE = 0.1;
    static final double LEFT_OPEN = 0.002;
    static final double LEFT_OPEN_BY_VISITOR = 0.02;
    static final double ABORTED = 0.2;
    static final int TIMEOUT_MS = 5_000;
    static final int VISITOR_TRANSACTIONS = 2;

    static String bootstrap;
    static String topic;
    static int partitions;
    static int hung;
    static PrintStream journal;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        topic = arguments[1];
        partitions = Integer.parseInt(arguments[2]);
        hung = Integer.parseInt(arguments[3]);
        long seed = Long.parseLong(arguments[4]);
        journal = new PrintStream(new FileOutputStream(arguments[5]), true);
        for (int number = 0; number < BUSY; number++) {
            String name = "busy-" + number;
            Random chance = new Random(seed + number);
            new Thread(() -> stay(name, chance)).start();
        }
        new Thread(() -> come(new Random(seed + BUSY))).start();
    }

    /** One id, with a new producer after each failure and after each transaction that it leaves open. */
    static void stay(String name, Random chance) {
        long[] open = {0, 0};
        while (true) {
            try (KafkaProducer<byte[], byte[]> producer = producer(name)) {
                producer.initTransactions();
                if (open[1] != 0) note(name, open[0], now(), open[1], "lost");
                open[1] = 0;
                while (transact(producer, name, chance, 0, LEFT_OPEN, open)) pause(chance.nextInt(6));
                producer.close(Duration.ZERO);
            } catch (Exception failure) {
                // It was fenced or timed out, or brokers are away: the next producer of the id ends what is open.
            }
            pause(200);
        }
    }

    /** Ids with two transactions each, on one of the partitions with hangs. */
    static void come(Random chance) {
        for (int number = 0; ; number++) {
            String name = "visitor-" + number;
            long[] open = {0, 0};
            try (KafkaProducer<byte[], byte[]> producer = producer(name)) {
                producer.initTransactions();
                int left = VISITOR_TRANSACTIONS;
                int home = chance.nextInt(hung);
                while (left > 0 && transact(producer, name, chance, home, LEFT_OPEN_BY_VISITOR, open)) left--;
                producer.close(Duration.ZERO);
            } catch (Exception failure) {
                // It does not come again.
            }
            if (open[1] != 0) note(name, open[0], open[0] + TIMEOUT_MS + 1_000, open[1], "timed_out");
            pause(1_000 + chance.nextInt(3_000));
        }
    }

    /** False if it is left open. `open` has its begin and its partitions until it has ended. */
    static boolean transact(
            KafkaProducer<byte[], byte[]> producer, String name, Random chance, int home, double leftOpen, long[] open) {
        List<Integer> chosen = new ArrayList<>(List.of(home));
        if (chance.nextDouble() < ELSEWHERE) chosen.add((home + 1 + chance.nextInt(partitions - 1)) % partitions);
        producer.beginTransaction();
        open[0] = now();
        for (int partition : chosen) open[1] |= 1L << partition;
        for (int partition : chosen) producer.send(new ProducerRecord<>(topic, partition, null, new byte[] {'x'}));
        producer.flush();
        double fate = chance.nextDouble();
        if (fate < leftOpen) return false;
        boolean isAborted = fate < ABORTED;
        if (isAborted) producer.abortTransaction();
        else producer.commitTransaction();
        note(name, open[0], now(), open[1], isAborted ? "aborted" : "committed");
        open[1] = 0;
        return true;
    }

    static KafkaProducer<byte[], byte[]> producer(String name) {
        Map<String, Object> configuration =
                Map.of(
                        "bootstrap.servers", bootstrap,
                        "transactional.id", name,
                        "transaction.timeout.ms", TIMEOUT_MS,
                        "linger.ms", 0,
                        "retry.backoff.ms", 5,
                        "request.timeout.ms", 1_500,
                        "delivery.timeout.ms", 5_000,
                        "max.block.ms", 5_000,
                        "metadata.max.age.ms", 5_000);
        return new KafkaProducer<>(configuration, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static synchronized void note(String name, long begun, long ended, long chosen, String outcome) {
        journal.printf("%s %d %d %d %s%n", name, begun, ended, chosen, outcome);
    }

    static long now() {
        return System.currentTimeMillis();
    }

    static void pause(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }
}

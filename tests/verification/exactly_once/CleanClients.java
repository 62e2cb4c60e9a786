import java.io.FileOutputStream;
import java.io.PrintStream;
import java.time.Duration;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Well-behaved clients of every kind until the process is killed: commits, aborts, time-outs, fences, ids that come back and
 * ids that do not.
 *
 * <p>Arguments: bootstrap servers, topic, its partitions, name of the clients, threads, seed, file. The number of transactions
 * that have ended is a line of the file, once a second.
 */
public final class CleanClients {
    static final int TIMEOUT_MS = 2_000;
    static final int IDS_OF_A_THREAD = 200;
    static final int TRANSACTIONS_OF_A_PRODUCER = 400;
    static final double ABORTED = 0.15;
    static final double STALLED = 0.0005;
    static final double FENCED = 0.001;
    static final double LEFT_OPEN = 0.001;
    static final double WIDE = 0.001;
    static final double SOME = 0.05;

    static final AtomicLong ended = new AtomicLong();
    static String bootstrap;
    static String topic;
    static int partitions;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        topic = arguments[1];
        partitions = Integer.parseInt(arguments[2]);
        int threads = Integer.parseInt(arguments[4]);
        long seed = Long.parseLong(arguments[5]);
        for (int number = 0; number < threads; number++) {
            String name = arguments[3] + "-" + number;
            Random chance = new Random(seed + number);
            new Thread(() -> live(name, chance)).start();
        }
        try (PrintStream file = new PrintStream(new FileOutputStream(arguments[6], true), true)) {
            while (true) {
                Thread.sleep(1_000);
                file.println(ended.get());
            }
        }
    }

    /** One producer after the other, half of them with the id of the one before. */
    static void live(String name, Random chance) {
        int id = 0;
        while (true) {
            id = chance.nextBoolean() ? id : chance.nextInt(IDS_OF_A_THREAD);
            try (KafkaProducer<byte[], byte[]> producer = producer(name + "-" + id)) {
                producer.initTransactions();
                int left = 1 + chance.nextInt(TRANSACTIONS_OF_A_PRODUCER);
                while (left > 0 && transact(producer, name + "-" + id, chance)) left--;
                producer.close(Duration.ZERO);
            } catch (Exception failure) {
                // It was fenced or timed out, or brokers are away: the next producer of the id, or nobody, ends what is open.
            }
        }
    }

    /** False if it is left open. */
    static boolean transact(KafkaProducer<byte[], byte[]> producer, String id, Random chance) throws Exception {
        producer.beginTransaction();
        double size = chance.nextDouble();
        int chosen = size < WIDE ? partitions : size < SOME ? 1 + chance.nextInt(20) : 1 + chance.nextInt(2);
        int first = chance.nextInt(partitions);
        for (int number = 0; number < chosen; number++) {
            producer.send(new ProducerRecord<>(topic, (first + number) % partitions, null, new byte[] {'x'}));
        }
        if (chance.nextDouble() < STALLED) {
            producer.flush();
            Thread.sleep(2 * TIMEOUT_MS);
        }
        if (chance.nextDouble() < FENCED) {
            producer.flush();
            try (KafkaProducer<byte[], byte[]> successor = producer(id)) {
                successor.initTransactions();
                transact(successor, id, chance);
                successor.close(Duration.ZERO);
            }
        }
        if (chance.nextDouble() < LEFT_OPEN) return false;
        if (chance.nextDouble() < ABORTED) producer.abortTransaction();
        else producer.commitTransaction();
        ended.incrementAndGet();
        return true;
    }

    static KafkaProducer<byte[], byte[]> producer(String id) {
        Map<String, Object> configuration =
                Map.of(
                        "bootstrap.servers", bootstrap,
                        "transactional.id", id,
                        "transaction.timeout.ms", TIMEOUT_MS,
                        "linger.ms", 0,
                        "retry.backoff.ms", 5,
                        "request.timeout.ms", 3_000,
                        "delivery.timeout.ms", 6_000,
                        "max.block.ms", 10_000);
        return new KafkaProducer<>(configuration, new ByteArraySerializer(), new ByteArraySerializer());
    }
}

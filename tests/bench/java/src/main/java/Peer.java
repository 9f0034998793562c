import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.Lock;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * The Java driver: {@code Peer --gate [--contend=FILE --stay=MS [--readers=N | --slots=N]] PEER WORKERS SECONDS}, one node from
 * {@code QUORLOCK_NODES}. Without {@code --contend} each worker has a lock of its own. PEER is {@code java:redisson}, an
 * {@code RLock}, or {@code java:redisson+fair}, an {@code RFairLock}; both with a lease time, which is cheaper for Redisson than its
 * watchdog. Readers and slots are on its defaults. Prints one line of JSON.
 */
final class Peer {
    private static final long TTL_SECONDS = 30;
    private static final long WARM_NANOS = TimeUnit.SECONDS.toNanos(2);
    /** After its time a run waits so long for contenders that have not come back. */
    private static final long DRAIN_MILLIS = 1000;

    /** One who acquires and releases, in a thread of its own. */
    private interface Contender {
        void acquire() throws InterruptedException;

        void release();
    }

    private final RedissonClient client;
    private final boolean fair;
    private final int readers;
    private final int slots;
    private final long stay;
    private final AtomicInteger failures = new AtomicInteger();

    private Peer(RedissonClient client, boolean fair, int readers, int slots, long stay) {
        this.client = client;
        this.fair = fair;
        this.readers = readers;
        this.slots = slots;
        this.stay = stay;
    }

    private Contender contender(String name, int number) {
        if (slots > 0) {
            RPermitExpirableSemaphore semaphore = client.getPermitExpirableSemaphore(name);
            semaphore.trySetPermits(slots);
            return new Contender() {
                private String permit;

                @Override
                public void acquire() throws InterruptedException {
                    permit = semaphore.acquire(TTL_SECONDS, TimeUnit.SECONDS);
                }

                @Override
                public void release() {
                    semaphore.release(permit);
                }
            };
        }
        if (readers == 0) {
            RLock lock = fair ? client.getFairLock(name) : client.getLock(name);
            return new Contender() {
                @Override
                public void acquire() {
                    lock.lock(TTL_SECONDS, TimeUnit.SECONDS);
                }

                @Override
                public void release() {
                    lock.unlock();
                }
            };
        }
        RReadWriteLock both = client.getReadWriteLock(name);
        // Without a lease time it is renewed.
        Lock lock = number < readers ? both.readLock() : both.writeLock();
        return new Contender() {
            @Override
            public void acquire() {
                lock.lock();
            }

            @Override
            public void release() {
                lock.unlock();
            }
        };
    }

    /** The holds of one contender, as handoffs.py reads them: contender, granted, releasing, released. */
    private static final class History {
        private long[] numbers = new long[1 << 12];
        private volatile int used;

        void add(long contender, long granted) {
            if (used + 4 > numbers.length) {
                numbers = Arrays.copyOf(numbers, 2 * numbers.length);
            }
            numbers[used] = contender;
            numbers[used + 1] = granted;
            used += 4;
        }

        void releasing(long at) {
            numbers[used - 2] = at;
        }

        void released(long at) {
            numbers[used - 1] = at;
        }
    }

    private void takePart(Contender contender, History history, int number, long end) {
        while (System.nanoTime() < end) {
            try {
                contender.acquire();
                history.add(number, System.nanoTime());
                if (stay > 0 && System.nanoTime() < end) {
                    Thread.sleep(stay);
                }
                history.releasing(System.nanoTime());
                contender.release();
                history.released(System.nanoTime());
            } catch (InterruptedException | RuntimeException error) {
                failures.incrementAndGet();
            }
        }
    }

    private void warm(Contender contender, long end) {
        do {
            try {
                contender.acquire();
                contender.release();
            } catch (InterruptedException error) {
                return;
            }
        } while (System.nanoTime() < end);
    }

    private static void write(Path path, List<History> histories) throws IOException {
        int numbers = histories.stream().mapToInt(history -> history.used).sum();
        ByteBuffer bytes = ByteBuffer.allocate(8 * numbers).order(ByteOrder.nativeOrder());
        for (History history : histories) {
            for (int at = 0; at < history.used; at++) {
                bytes.putLong(history.numbers[at]);
            }
        }
        Files.write(path, Arrays.copyOf(bytes.array(), bytes.position()));
    }

    public static void main(String[] words) throws Exception {
        List<String> given = Arrays.stream(words).filter(word -> !word.startsWith("--")).toList();
        int workers = Integer.parseInt(given.get(1));
        double seconds = Double.parseDouble(given.get(2));
        Config config = new Config();
        config.useSingleServer().setAddress(System.getenv("QUORLOCK_NODES"));
        RedissonClient client = Redisson.create(config);
        int readers = Integer.parseInt(value(words, "--readers=", "0"));
        int slots = Integer.parseInt(value(words, "--slots=", "0"));
        boolean fair = given.get(0).endsWith("+fair");
        Peer peer = new Peer(client, fair, readers, slots, Long.parseLong(value(words, "--stay=", "0")));
        String path = value(words, "--contend=", "");
        if (path.isEmpty()) {
            peer.cycle(given.get(0), workers, seconds);
        } else {
            peer.run(given.get(0), workers, seconds, Path.of(path));
        }
    }

    private static String value(String[] words, String flag, String otherwise) {
        return Arrays.stream(words).filter(word -> word.startsWith(flag)).findFirst().map(word -> word.substring(flag.length()))
            .orElse(otherwise);
    }

    /** How long each cycle of a worker took, in ns. */
    private static final class Cycles {
        private long[] nanos = new long[1 << 12];
        private int used;

        void add(long took) {
            if (used == nanos.length) {
                nanos = Arrays.copyOf(nanos, 2 * nanos.length);
            }
            nanos[used++] = took;
        }
    }

    /** Each worker on a lock of its own, which nobody else wants. */
    private void cycle(String name, int workers, double seconds) throws Exception {
        CountDownLatch warm = new CountDownLatch(workers);
        CountDownLatch go = new CountDownLatch(1);
        CountDownLatch done = new CountDownLatch(workers);
        long[] ends = new long[1];
        List<Cycles> all = java.util.stream.IntStream.range(0, workers).mapToObj(number -> new Cycles()).toList();
        long warmUntil = System.nanoTime() + WARM_NANOS;
        for (int number = 0; number < workers; number++) {
            Contender own = contender("bench-" + ProcessHandle.current().pid() + "-" + number, number);
            Cycles cycles = all.get(number);
            Thread thread = new Thread(() -> {
                warm(own, warmUntil);
                warm.countDown();
                try {
                    go.await();
                    for (long began = System.nanoTime(); began < ends[0];) {
                        own.acquire();
                        own.release();
                        long ended = System.nanoTime();
                        cycles.add(ended - began);
                        began = ended;
                    }
                } catch (InterruptedException | RuntimeException error) {
                    failures.incrementAndGet();
                }
                done.countDown();
            });
            thread.setDaemon(true);
            thread.start();
        }
        warm.await();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        lines.readLine();
        OperatingSystemMXBean process = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long used = process.getProcessCpuTime();
        long began = System.nanoTime();
        ends[0] = began + (long) (seconds * 1e9);
        go.countDown();
        done.await();
        double took = (System.nanoTime() - began) / 1e9;
        used = process.getProcessCpuTime() - used;
        long[] nanos = all.stream().flatMapToLong(cycles -> Arrays.stream(cycles.nanos, 0, cycles.used)).sorted().toArray();
        java.util.function.DoubleFunction<Double> at = share -> nanos[(int) (share * (nanos.length - 1))] / 1e3;
        System.out.printf("{\"peer\": \"%s\", \"cycles\": %d, \"seconds\": %.3f, \"cycles_per_s\": %.0f, \"p50_us\": %.2f, \"p99_us\": %.2f, "
            + "\"max_us\": %.2f, \"cpu_us\": %.2f, \"failures\": %d, \"violations\": 0}%n", name, nanos.length, took, nanos.length / took,
            at.apply(0.5), at.apply(0.99), at.apply(1.0), used / 1e3 / nanos.length, failures.get());
        lines.readLine();
        Runtime.getRuntime().halt(0);
    }

    private void run(String name, int workers, double seconds, Path path) throws Exception {
        CountDownLatch warm = new CountDownLatch(workers);
        CountDownLatch go = new CountDownLatch(1);
        CountDownLatch done = new CountDownLatch(workers);
        long[] ends = new long[1];
        List<History> histories = java.util.stream.IntStream.range(0, workers).mapToObj(number -> new History()).toList();
        long warmUntil = System.nanoTime() + WARM_NANOS;
        for (int number = 0; number < workers; number++) {
            int mine = number;
            Thread thread = new Thread(() -> {
                warm(contender("warm-" + ProcessHandle.current().pid() + "-" + mine, mine), warmUntil);
                Contender contender = contender("bench", mine);
                warm.countDown();
                try {
                    go.await();
                } catch (InterruptedException error) {
                    return;
                }
                takePart(contender, histories.get(mine), mine, ends[0]);
                done.countDown();
            });
            thread.setDaemon(true);
            thread.start();
        }
        warm.await();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        lines.readLine();
        OperatingSystemMXBean process = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long used = process.getProcessCpuTime();
        long began = System.nanoTime();
        ends[0] = began + (long) (seconds * 1e9);
        go.countDown();
        Thread.sleep((long) (seconds * 1000));
        used = process.getProcessCpuTime() - used;
        done.await(DRAIN_MILLIS, TimeUnit.MILLISECONDS);
        write(path, histories);
        System.out.printf("{\"peer\": \"%s\", \"began\": %d, \"ended\": %d, \"cpu_ns\": %d, \"failures\": %d, \"late\": %d}%n", name, began,
            ends[0], used, failures.get(), done.getCount());
        lines.readLine();
        // What is still waiting would keep the client from closing.
        Runtime.getRuntime().halt(0);
    }
}

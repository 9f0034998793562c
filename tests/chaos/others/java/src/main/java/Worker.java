import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ThreadLocalRandom;
import org.redisson.Redisson;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * A worker on Redisson's locks: {@code Worker redisson}, an {@code RLock}, or {@code Worker redisson-fenced}, an
 * {@code RFencedLock}. ../README.md says what it does, and what its environment has.
 */
final class Worker {
    private static final String KEY = "ledger";
    /** After an acquire that has failed: a library that fails at once is not asked again at once. */
    private static final int REST_MILLIS = 10;

    private final BufferedReader lines;
    private final OutputStream stream;

    private Worker(Socket socket) throws IOException {
        socket.setTcpNoDelay(true);
        lines = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
        stream = socket.getOutputStream();
    }

    private String[] ask(String words) throws IOException {
        stream.write((words + "\n").getBytes(StandardCharsets.UTF_8));
        String said = lines.readLine();
        return (said == null ? "end" : said).split(" ");
    }

    private static RedissonClient client() {
        Config config = new Config();
        // A lock without a lease time is renewed for as long as this client lives, and ends after this.
        config.setLockWatchdogTimeout(Long.parseLong(System.getenv("TTL")));
        String sentinels = System.getenv("SENTINELS");
        if (sentinels == null) {
            config.useSingleServer().setAddress(System.getenv("NODES"));
        } else {
            var servers = config.useSentinelServers().setMasterName(System.getenv("MASTER"));
            for (String sentinel : sentinels.split(",")) {
                servers.addSentinelAddress("redis://" + sentinel);
            }
        }
        return Redisson.create(config);
    }

    private void round(RLock lock) throws IOException, InterruptedException {
        long fence = 0;
        try {
            if (lock instanceof RFencedLock fenced) {
                fence = fenced.lockAndGetToken();
            } else {
                lock.lock();
            }
        } catch (RuntimeException error) {
            ask("failed " + error.getClass().getSimpleName());
            Thread.sleep(ThreadLocalRandom.current().nextInt(REST_MILLIS));
            return;
        }
        // It tells no loss before the release.
        String[] read = ask("read " + KEY + " " + fence);
        if (read.length == 2) {
            Thread.sleep(Long.parseLong(read[1]));
            ask("write " + KEY + " " + fence + " " + (Long.parseLong(read[0]) + 1));
        }
        try {
            lock.unlock();
        } catch (RuntimeException error) {
            ask("unreleased " + error.getClass().getSimpleName());
        }
    }

    public static void main(String[] arguments) throws IOException, InterruptedException {
        RedissonClient client = client();
        RLock lock = arguments[0].equals("redisson-fenced") ? client.getFencedLock(KEY) : client.getLock(KEY);
        Worker worker = new Worker(new Socket("127.0.0.1", Integer.parseInt(System.getenv("LEDGER"))));
        worker.ask("hello " + System.getenv("NAME"));
        while (worker.ask("next")[0].equals("go")) {
            worker.round(lock);
        }
        // Its threads would keep the process.
        System.exit(0);
    }
}

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Java's side: {@code Side URL}. Answers each line of its input by a line, with the locks of one thread: a lease of 0 ms is
 * one that the watchdog renews. What fails is answered by the name of the exception.
 */
final class Side {
    private final RedissonClient redisson;

    private Side(String url) {
        Config config = new Config();
        config.setLockWatchdogTimeout(6000);
        config.useSingleServer().setAddress(url).setConnectionMinimumIdleSize(1).setConnectionPoolSize(4)
            .setSubscriptionConnectionMinimumIdleSize(1);
        redisson = Redisson.create(config);
    }

    private String answer(String[] words) throws Exception {
        RLock lock = words.length > 1 ? redisson.getLock(words[1]) : null;
        switch (words[0]) {
            case "owner":
                return redisson.getId() + ":" + Thread.currentThread().getId();
            case "lock":
                lock.lock(lease(words[2]), TimeUnit.MILLISECONDS);
                return "ok";
            case "try":
                return "" + lock.tryLock(Long.parseLong(words[2]), lease(words[3]), TimeUnit.MILLISECONDS);
            case "unlock":
                lock.unlock();
                return "ok";
            case "force":
                return "" + lock.forceUnlock();
            case "held":
                return "" + lock.isHeldByCurrentThread();
            case "holds":
                return "" + lock.getHoldCount();
            case "fenced":
                return "" + redisson.getFencedLock(words[1]).lockAndGetToken();
            case "read":
                redisson.getReadWriteLock(words[1]).readLock().lock();
                return "ok";
            case "unread":
                redisson.getReadWriteLock(words[1]).readLock().unlock();
                return "ok";
            case "count":
                return count(lock, Path.of(words[2]), Integer.parseInt(words[3]));
            default:
                return "no such word: " + words[0];
        }
    }

    private static long lease(String millis) {
        long given = Long.parseLong(millis);
        return given == 0 ? -1 : given;
    }

    /** Counts up what is in the file, so many times, each time while it holds the lock. */
    private static String count(RLock lock, Path file, int times) throws IOException {
        for (int i = 0; i < times; i++) {
            lock.lock();
            try {
                long before = Long.parseLong(Files.readString(file).trim());
                Files.writeString(file, (before + 1) + "\n");
            } finally {
                lock.unlock();
            }
        }
        return "ok";
    }

    public static void main(String[] arguments) throws IOException {
        Side side = new Side(arguments[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String said;
            try {
                said = side.answer(line.split(" "));
            } catch (Exception failed) {
                said = failed.getClass().getSimpleName() + " " + ("" + failed.getMessage()).replace('\n', ' ');
            }
            System.out.println(said);
        }
        side.redisson.shutdown();
    }
}

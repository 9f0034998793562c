// The Go libraries behind the verbs of ../README.md: `interop LIBRARY`, nodes from QUORLOCK_NODES.
//
// Each waits as it does by itself, for at most `patience`. What it could not win, it has refused; every other error is one.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

const (
	patience = 20 * time.Second
	// Of redsync, which asks again after 50 to 250 ms by itself.
	tries = 130
	// Of redislock, which has no pause of its own: what its documentation gives.
	backoff = 100 * time.Millisecond
	// Long enough for a busy machine: no lock of the counter ends by its time.
	loopTTL = 10 * time.Second
	stay    = time.Millisecond
)

type locks interface {
	acquire(name string, ttl time.Duration, wait bool) (bool, error)
	// Whether it was still held.
	release() (bool, error)
	extend(ttl time.Duration) (bool, error)
}

// One lock on several nodes.
type redsyncLocks struct {
	redsync *redsync.Redsync
	mutex   *redsync.Mutex
}

func newRedsync(clients []*redis.Client) locks {
	var pools []redsyncredis.Pool
	for _, client := range clients {
		pools = append(pools, goredis.NewPool(client))
	}
	return &redsyncLocks{redsync: redsync.New(pools...)}
}

// It tells a lock that others hold by three kinds of errors: by node, by a quorum of nodes, and when its tries are used up.
func taken(err error) bool {
	var byNode *redsync.ErrNodeTaken
	var byQuorum *redsync.ErrTaken
	return errors.As(err, &byNode) || errors.As(err, &byQuorum) || errors.Is(err, redsync.ErrFailed)
}

func (l *redsyncLocks) acquire(name string, ttl time.Duration, wait bool) (bool, error) {
	l.mutex = l.redsync.NewMutex(name, redsync.WithExpiry(ttl), redsync.WithTries(tries))
	lock := l.mutex.TryLock
	if wait {
		lock = l.mutex.Lock
	}
	err := lock()
	if taken(err) {
		return false, nil
	}
	return err == nil, err
}

func (l *redsyncLocks) release() (bool, error) {
	held, err := l.mutex.Unlock()
	if taken(err) || errors.Is(err, redsync.ErrLockAlreadyExpired) {
		return false, nil
	}
	return held, err
}

// It extends by the expiry that it was made with.
func (l *redsyncLocks) extend(time.Duration) (bool, error) {
	extended, err := l.mutex.Extend()
	if taken(err) {
		return false, nil
	}
	return extended, err
}

// One lock on one server.
type redislockLocks struct {
	client *redislock.Client
	lock   *redislock.Lock
}

func newRedislock(clients []*redis.Client) locks {
	return &redislockLocks{client: redislock.New(clients[0])}
}

func (l *redislockLocks) acquire(name string, ttl time.Duration, wait bool) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	retry := redislock.NoRetry()
	if wait {
		retry = redislock.LinearBackoff(backoff)
	}
	lock, err := l.client.Obtain(ctx, name, ttl, &redislock.Options{RetryStrategy: retry})
	if errors.Is(err, redislock.ErrNotObtained) {
		return false, nil
	}
	l.lock = lock
	return err == nil, err
}

func (l *redislockLocks) release() (bool, error) {
	err := l.lock.Release(context.Background())
	if errors.Is(err, redislock.ErrLockNotHeld) {
		return false, nil
	}
	return err == nil, err
}

func (l *redislockLocks) extend(ttl time.Duration) (bool, error) {
	err := l.lock.Refresh(context.Background(), ttl, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return false, nil
	}
	return err == nil, err
}

// By the adapter's word: the module, and what is made of the nodes.
var libraries = map[string]struct {
	module string
	make   func([]*redis.Client) locks
}{
	"redsync":   {"github.com/go-redsync/redsync/v4", newRedsync},
	"redislock": {"github.com/bsm/redislock", newRedislock},
}

// So many times: the last number of the file is read under the lock, and the next one is written behind it.
func loop(l locks, name string, cycles int, path, who string, wait bool) (string, error) {
	for range cycles {
		for {
			held, err := l.acquire(name, loopTTL, wait)
			if err != nil {
				return "", err
			}
			if held {
				break
			}
			pause(1000, 5000)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		number := 0
		if lines := strings.Split(strings.TrimSpace(string(text)), "\n"); lines[0] != "" {
			if number, err = strconv.Atoi(strings.Fields(lines[len(lines)-1])[0]); err != nil {
				return "", err
			}
		}
		time.Sleep(stay)
		// One write at the end of the file: two of them at once are two lines.
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return "", err
		}
		_, err = fmt.Fprintf(file, "%d %s\n", number+1, who)
		if err = errors.Join(err, file.Close()); err != nil {
			return "", err
		}
		held, err := l.release()
		if err != nil {
			return "", err
		}
		if !held {
			return "failed: the lock was not held any more when it was released", nil
		}
		pause(0, 3000)
	}
	return "done", nil
}

// A random time in that many µs.
func pause(least, most int) {
	time.Sleep(time.Duration(least+rand.Intn(most-least)) * time.Microsecond)
}

func word(yes bool, one, other string) string {
	if yes {
		return one
	}
	return other
}

func answer(l locks, words []string) (string, error) {
	number := func(at int) (int, error) {
		if len(words) <= at {
			return 0, fmt.Errorf("%v has too few words", words)
		}
		return strconv.Atoi(words[at])
	}
	switch words[0] {
	case "try", "hold":
		ms, err := number(2)
		if err != nil {
			return "", err
		}
		ttl := time.Duration(ms) * time.Millisecond
		held, err := l.acquire(words[1], ttl, false)
		if err == nil && !held && words[0] == "hold" {
			fmt.Println("waiting")
			held, err = l.acquire(words[1], ttl, true)
		}
		return word(held, "held", "refused"), err
	case "release":
		held, err := l.release()
		return word(held, "released", "lost"), err
	case "extend":
		ms, err := number(1)
		if err != nil {
			return "", err
		}
		extended, err := l.extend(time.Duration(ms) * time.Millisecond)
		return word(extended, "extended", "lost"), err
	case "loop":
		cycles, err := number(2)
		if err != nil || len(words) != 6 {
			return "", fmt.Errorf("loop NAME CYCLES FILE WHO HOW, and not %v", words)
		}
		return loop(l, words[1], cycles, words[3], words[4], words[5] == "waits")
	}
	return "failed: no verb " + words[0], nil
}

func version(module string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == module {
				return strings.TrimPrefix(dep.Version, "v")
			}
		}
	}
	return "none"
}

func main() {
	library, known := libraries[os.Args[len(os.Args)-1]]
	if !known {
		fmt.Fprintln(os.Stderr, "interop redsync|redislock")
		os.Exit(2)
	}
	var clients []*redis.Client
	for _, url := range strings.Split(os.Getenv("QUORLOCK_NODES"), ",") {
		options, err := redis.ParseURL(url)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		clients = append(clients, redis.NewClient(options))
	}
	l := library.make(clients)
	fmt.Println("ready", version(library.module))
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		said, err := answer(l, strings.Fields(lines.Text()))
		if err != nil {
			said = "failed: " + strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Println(said)
	}
}

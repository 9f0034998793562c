// A worker on one of Go's locks: `worker LIBRARY`. ../README.md says what it does, and what its environment has.
package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

const (
	key = "ledger"
	// After an acquire that has failed: a library that fails at once is not asked again at once.
	rest = 10 * time.Millisecond
	// For a client's first connection.
	dial = 5 * time.Second
)

type lock interface {
	// Waits as the library does by itself.
	acquire() error
	// Whether the library has told that the lock is lost; redsync tells at the release alone.
	look() bool
	release() error
	fence() int64
}

type redsyncLock struct {
	redsync *redsync.Redsync
	ttl     time.Duration
	mutex   *redsync.Mutex
}

func newRedsync(nodes []string, ttl time.Duration) (lock, error) {
	var pools []redsyncredis.Pool
	for _, url := range nodes {
		options, err := redis.ParseURL(url)
		if err != nil {
			return nil, err
		}
		pools = append(pools, goredis.NewPool(redis.NewClient(options)))
	}
	return &redsyncLock{redsync: redsync.New(pools...), ttl: ttl}, nil
}

func (l *redsyncLock) acquire() error {
	l.mutex = l.redsync.NewMutex(key, redsync.WithExpiry(l.ttl))
	return l.mutex.Lock()
}

func (l *redsyncLock) release() error {
	_, err := l.mutex.Unlock()
	return err
}

func (*redsyncLock) look() bool   { return false }
func (*redsyncLock) fence() int64 { return 0 }

type rueidisLock struct {
	locker rueidislock.Locker
	ctx    context.Context
	cancel context.CancelFunc
}

func newRueidis(nodes []string, ttl time.Duration) (lock, error) {
	option := rueidis.ClientOption{}
	if sentinels := os.Getenv("SENTINELS"); sentinels != "" {
		option.InitAddress = strings.Split(sentinels, ",")
		option.Sentinel = rueidis.SentinelOption{MasterSet: os.Getenv("MASTER")}
	} else {
		option.InitAddress = []string{strings.TrimPrefix(nodes[0], "redis://")}
	}
	// One server, and as its README has it for one.
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: option, KeyMajority: 1, NoLoopTracking: true, KeyValidity: ttl,
	})
	return &rueidisLock{locker: locker}, err
}

func (l *rueidisLock) acquire() (err error) {
	l.ctx, l.cancel, err = l.locker.WithContext(context.Background(), key)
	return err
}

func (l *rueidisLock) look() bool { return l.ctx.Err() != nil }

func (l *rueidisLock) release() error {
	l.cancel()
	return nil
}

func (*rueidisLock) fence() int64 { return 0 }

type etcdLock struct {
	client  *clientv3.Client
	seconds int
	session *concurrency.Session
	mutex   *concurrency.Mutex
}

func newEtcd(nodes []string, ttl time.Duration) (lock, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: nodes, DialTimeout: dial})
	return &etcdLock{client: client, seconds: int(ttl / time.Second)}, err
}

func (l *etcdLock) acquire() (err error) {
	if l.session == nil || l.look() {
		if l.session, err = concurrency.NewSession(l.client, concurrency.WithTTL(l.seconds)); err != nil {
			l.session = nil
			return err
		}
	}
	l.mutex = concurrency.NewMutex(l.session, "/"+key)
	return l.mutex.Lock(context.Background())
}

func (l *etcdLock) look() bool {
	select {
	case <-l.session.Done():
		return true
	default:
		return false
	}
}

func (l *etcdLock) release() error { return l.mutex.Unlock(context.Background()) }
func (l *etcdLock) fence() int64   { return l.mutex.Header().Revision }

var libraries = map[string]func([]string, time.Duration) (lock, error){
	"redsync": newRedsync, "rueidislock": newRueidis, "etcd": newEtcd,
}

type ledger struct {
	connection net.Conn
	lines      *bufio.Reader
}

func (l *ledger) ask(words ...string) []string {
	fmt.Fprintln(l.connection, strings.Join(words, " "))
	said, err := l.lines.ReadString('\n')
	if err != nil {
		return []string{"end"}
	}
	return strings.Fields(said)
}

// What kind of error it is: its Go type, and its first word.
func kind(err error) string {
	return strings.TrimPrefix(fmt.Sprintf("%T", err), "*") + ":" + strings.SplitN(err.Error(), " ", 2)[0]
}

func attempt(l lock, ledger *ledger) error {
	if err := l.acquire(); err != nil {
		ledger.ask("failed", kind(err))
		time.Sleep(time.Duration(rand.Int63n(int64(rest))))
		return nil
	}
	fence := strconv.FormatInt(l.fence(), 10)
	if said := ledger.ask("read", key, fence); len(said) == 2 {
		number, err := strconv.Atoi(said[0])
		if err != nil {
			return err
		}
		think, err := strconv.Atoi(said[1])
		if err != nil {
			return err
		}
		time.Sleep(time.Duration(think) * time.Millisecond)
		if l.look() {
			ledger.ask("lost")
		} else {
			ledger.ask("write", key, fence, strconv.Itoa(number+1))
		}
	}
	if err := l.release(); err != nil {
		ledger.ask("unreleased", kind(err))
	}
	return nil
}

func run() error {
	ttl, err := strconv.Atoi(os.Getenv("TTL"))
	if err != nil {
		return err
	}
	l, err := libraries[os.Args[1]](strings.Split(os.Getenv("NODES"), ","), time.Duration(ttl)*time.Millisecond)
	if err != nil {
		return err
	}
	connection, err := net.Dial("tcp", "127.0.0.1:"+os.Getenv("LEDGER"))
	if err != nil {
		return err
	}
	ledger := &ledger{connection, bufio.NewReader(connection)}
	ledger.ask("hello", os.Getenv("NAME"))
	for ledger.ask("next")[0] == "go" {
		if err := attempt(l, ledger); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

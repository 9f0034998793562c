// The Go side of the benchmarks: `go_peer [--gate] [--contend=FILE --stay=MS] PEER WORKERS SECONDS`, nodes from
// QUORLOCK_NODES. One line of JSON. See tests/bench/README.md.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

const (
	usage = "usage: go_peer [--gate] [--contend=FILE --stay=MS] PEER WORKERS SECONDS\n  PEER  go:redsync, go:redsync+fast"
	ttl   = 30 * time.Second
	// Cycles of all workers before anything is measured.
	warmCycles = 200
	// As other peers at their best settings: it looks every millisecond, and never gives up.
	fastDelay, fastTries = time.Millisecond, 1 << 30
)

type words struct {
	peer     string
	fast     bool
	workers  int
	seconds  float64
	gate     bool
	history  string
	stay     time.Duration
	contends bool
	input    *bufio.Reader
}

func parse(given []string) (words, error) {
	found, rest := words{input: bufio.NewReader(os.Stdin)}, []string{}
	for _, word := range given {
		flag, value, _ := strings.Cut(word, "=")
		switch {
		case flag == "--gate":
			found.gate = true
		case flag == "--contend":
			found.history, found.contends = value, true
		case flag == "--stay":
			ms, err := strconv.Atoi(value)
			if err != nil {
				return found, err
			}
			found.stay = time.Duration(ms) * time.Millisecond
		case strings.HasPrefix(word, "--"):
			return found, fmt.Errorf("no flag %s", word)
		default:
			rest = append(rest, word)
		}
	}
	if len(rest) != 3 {
		return found, fmt.Errorf("%d words", len(rest))
	}
	switch found.peer = rest[0]; found.peer {
	case "go:redsync":
	case "go:redsync+fast":
		found.fast = true
	default:
		return found, fmt.Errorf("no peer %s", rest[0])
	}
	var err error
	if found.workers, err = strconv.Atoi(rest[1]); err != nil {
		return found, err
	}
	found.seconds, err = strconv.ParseFloat(rest[2], 64)
	return found, err
}

// Ready says that what comes next is measured, and waits for a line.
func (w words) ready() {
	if w.gate {
		fmt.Println("ready")
		w.line()
	}
}

// End waits for a line: until then what is still under way may end.
func (w words) end() {
	if w.gate {
		w.line()
	}
}

func (w words) line() {
	_, _ = w.input.ReadString('\n')
}

// Pools are one for each node, as redsync's README has it.
func (w words) pools() ([]redsyncredis.Pool, error) {
	var pools []redsyncredis.Pool
	for _, url := range strings.Split(os.Getenv("QUORLOCK_NODES"), ",") {
		options, err := redis.ParseURL(url)
		if err != nil {
			return nil, err
		}
		if w.fast {
			// The default, ten for each core, makes goroutines wait for a connection.
			options.PoolSize = max(w.workers, 10)
		}
		pools = append(pools, goredis.NewPool(redis.NewClient(options)))
	}
	return pools, nil
}

// Options of a mutex: the defaults, or the best for speed.
func (w words) options() []redsync.Option {
	options := []redsync.Option{redsync.WithExpiry(ttl)}
	if w.fast {
		// It returns once a quorum has answered.
		options = append(options, redsync.WithFailFast(true), redsync.WithRetryDelay(fastDelay), redsync.WithTries(fastTries))
	}
	return options
}

func main() {
	found, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s\n", err, usage)
		os.Exit(2)
	}
	pools, err := found.pools()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	manager := redsync.New(pools...)
	open := func(name string) *redsync.Mutex { return manager.NewMutex(name, found.options()...) }
	run := cycles
	if found.contends {
		run = contend
	}
	if err := run(found, open); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	found.end()
}

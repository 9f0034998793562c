//! A cluster's map, as a server of it may send it: no panic, and each hash slot is one, of one
//! server.

use quorlock::sim::probe;

/// How many hash slots a cluster has.
const SLOTS: usize = 16_384;

pub(crate) const SEEDS: &[&[u8]] = &[
    b"*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$8\r\n10.0.0.1\r\n:7000\r\n$1\r\na\r\n",
    b"*2\r\n*4\r\n:0\r\n:5460\r\n*3\r\n$0\r\n\r\n:7000\r\n$1\r\na\r\n*3\r\n$1\r\nh\r\n:7\r\n$1\r\nd\r\n*3\r\n:5461\r\n:16383\r\n*3\r\n$1\r\nh\r\n:7001\r\n$1\r\nb\r\n",
    b"*1\r\n*3\r\n:3\r\n:4\r\n*4\r\n$-1\r\n:7002\r\n$1\r\na\r\n*2\r\n$8\r\nhostname\r\n$3\r\nh.c\r\n",
    b"*1\r\n*3\r\n:16383\r\n:1\r\n*3\r\n$1\r\nh\r\n:7000\r\n$1\r\na\r\n",
    b"*2\r\n*3\r\n:1\r\n:9\r\n*3\r\n$1\r\nh\r\n:7\r\n$1\r\na\r\n*3\r\n:9\r\n:9\r\n*3\r\n$1\r\nh\r\n:8\r\n$1\r\nb\r\n",
    b"*1\r\n*3\r\n:-1\r\n:65535\r\n*3\r\n$1\r\nh\r\n:99999\r\n$1\r\na\r\n",
    b"+a h:1@2 myself,master - 0 0 1 connected 0-92 [93-<-b] [16384-<-b] [4->-b]\r\n",
    b"*0\r\n",
];

pub(crate) fn run(data: &[u8]) {
    let (ranges, own, arriving) = probe::read_map(data);
    let mut served = vec![false; SLOTS];
    for (first, last) in ranges {
        let range = &mut served[usize::from(first)..=usize::from(last)];
        assert!(!range.contains(&true), "{first} to {last}");
        range.fill(true);
    }
    for slots in [own, arriving] {
        assert!(slots.is_sorted_by(|one, next| one < next));
        assert!(slots.iter().all(|slot| usize::from(*slot) < SLOTS));
    }
}

//! Pushes and replies in one stream that arrives in pieces: no panic, the same
//! whatever the pieces, little is held, and only a message to our inbox is one.

use std::io;

use quorlock::sim::probe::pushes::{PushKind, PushStream};

/// The first byte says how long the pieces are.
pub(crate) const SEEDS: &[&[u8]] = &[
    b"\x01>3\r\n$9\r\nsubscribe\r\n$2\r\nin\r\n:1\r\n>3\r\n$7\r\nmessage\r\n$2\r\nin\r\n$1\r\n7\r\n",
    b"\x05:1\r\n>3\r\n$7\r\nmessage\r\n$2\r\nin\r\n$20\r\n18446744073709551615\r\n*1\r\n:0\r\n",
    b"\xff>3\r\n$7\r\nmessage\r\n$2\r\nin\r\n$21\r\n184467440737095516159\r\n_\r\n",
    b"\x03>2\r\n+invalidate\r\n*2\r\n$1\r\na\r\n%1\r\n+k\r\n~1\r\n#t\r\n$-1\r\n",
    b"\x07>4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$2\r\nin\r\n$1\r\n1\r\n>0\r\n>1\r\n=5\r\ntxt:a\r\n",
    b"\x10*2\r\n:1\r\n$5\r\n>3\r\n\r\n\r\n-ERR x\r\n>3\r\n$7\r\nmessage\r\n$2\r\nin\r\n$-1\r\n",
];
const INBOX: &[u8] = b"in";
/// The longest reply, and a piece.
const HELD: usize = 64 * 1024 + 256;

pub(crate) fn run(data: &[u8]) {
    let Some((piece, stream)) = data.split_first() else {
        return;
    };
    let (whole, whole_end) = read(stream, stream.len().max(1));
    let (pieces, pieces_end) = read(stream, usize::from(*piece).max(1));
    assert_eq!(whole, pieces);
    assert_eq!(whole_end.is_ok(), pieces_end.is_ok());
    let messages = whole.iter().filter(|c| matches!(c, PushKind::Message(_)));
    assert!(messages.count() <= occurrences(stream, b"message\r\n"));
    let told = |c: &&PushKind| matches!(c, PushKind::Message(_) | PushKind::Subscribed);
    assert!(whole.iter().filter(told).count() <= occurrences(stream, b"in\r\n"));
    let pushes = whole.iter().filter(|c| **c != PushKind::Reply).count();
    assert!(pushes <= occurrences(stream, b">"));
}

fn read(stream: &[u8], piece: usize) -> (Vec<PushKind>, io::Result<()>) {
    let (mut input, mut came) = (PushStream::new(INBOX), Vec::new());
    for piece in stream.chunks(piece) {
        if let Err(error) = input.take(piece, &mut came) {
            return (came, Err(error));
        }
        assert!(input.held() <= HELD);
    }
    (came, Ok(()))
}

fn occurrences(stream: &[u8], what: &[u8]) -> usize {
    stream.windows(what.len()).filter(|w| *w == what).count()
}

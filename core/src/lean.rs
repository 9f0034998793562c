//! Lists and queues that hold no more memory than they need.

use std::collections::VecDeque;

/// This many places a queue keeps when it is empty.
const KEPT: usize = 256;

/// Appends to a list that nearly always has one element: `push` alone would make
/// room for four, in every lease that is held.
pub(crate) fn push_exact<T>(list: &mut Vec<T>, element: T) {
    if list.is_empty() {
        list.reserve_exact(1);
    }
    list.push(element);
}

/// Gives memory back that a burst has taken, once the queue is empty.
pub(crate) fn trim<T>(queue: &mut VecDeque<T>) {
    if queue.is_empty() && queue.capacity() > KEPT {
        queue.shrink_to(KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emptied_queue_gives_back_what_a_burst_took() {
        let mut queue: VecDeque<u8> = VecDeque::with_capacity(100 * KEPT);
        queue.push_back(1);
        trim(&mut queue);
        assert!(queue.capacity() >= 100 * KEPT, "somebody is in it");
        queue.clear();
        trim(&mut queue);
        assert!((KEPT..2 * KEPT).contains(&queue.capacity()));
    }

    #[test]
    fn a_lean_list_grows_by_what_it_has() {
        let mut list = Vec::new();
        push_exact(&mut list, 1);
        assert_eq!(list.capacity(), 1);
        push_exact(&mut list, 2);
        assert_eq!(list, [1, 2]);
    }
}

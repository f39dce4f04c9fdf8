//! Way into the crate for `fuzz/`, whose builds alone have it: what reads the rings that a target may have written over.

use crate::message::{Message, messages};

/// Reads all messages in these words of a ring, and all that they hold.
pub fn ring_messages(words: &[u64]) {
    let mut text = Vec::new();
    for message in messages(words).flatten() {
        match message {
            Message::Sample(sample) => {
                let blocks = sample.blocks().len();
                assert!(sample.block.is_none_or(|row| row < blocks), "a block that is not there");
                assert!(sample.accesses().count() <= words.len());
            }
            Message::Maps(maps) => maps.append_text(&mut text),
            Message::Range(..) | Message::Thread(_) => {}
        }
    }
    assert!(text.len() <= 8 * words.len(), "more text than there are bytes");
}

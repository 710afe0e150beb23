//! A task that panics ends without a word: somebody must count.

use std::cell::Cell;
use std::panic;
use std::sync::Once;

thread_local! {
    /// A world lives on one thread.
    static PANICS: Cell<u64> = const { Cell::new(0) };
}

/// How many there have been before.
pub(crate) struct Panics(u64);

pub(crate) fn counted() -> Panics {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let tell = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            PANICS.set(PANICS.get() + 1);
            tell(panic);
        }));
    });
    Panics(PANICS.get())
}

impl Panics {
    pub(crate) fn more(&self) -> bool {
        PANICS.get() > self.0
    }
}

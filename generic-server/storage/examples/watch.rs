//! Follows the changes of a prefix while keys are written: the way in which watch caches are fed.

use std::{error::Error, sync::Arc};

use storage::{Event, Expect, Memory, Revision, Sink, Store};

struct Printer;

impl Sink for Printer {
    fn apply(&self, events: &[Event]) {
        for event in events {
            let value = event.value.as_ref().map(|value| String::from_utf8_lossy(value).into_owned());
            println!("{} {} {}", event.revision, event.key, value.as_deref().unwrap_or("deleted"));
        }
    }

    fn progress(&self, revision: Revision) {
        println!("{revision} nothing is outstanding");
    }

    fn closed(&self, error: storage::Error) {
        println!("closed: {error}");
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = Memory::new();
    let begin = store.revision().await?;
    let watch = store.watch("/registry/pods/", begin, Arc::new(Printer)).await?;
    let made = store.put("/registry/pods/default/web", "one".into(), Expect::Absent, None).await?;
    let changed = store.put("/registry/pods/default/web", "two".into(), Expect::Revision(made), None).await?;
    store.delete("/registry/pods/default/web", changed).await?;
    drop(watch);
    Ok(())
}

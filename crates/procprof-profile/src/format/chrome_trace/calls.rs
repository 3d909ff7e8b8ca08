//! Calls of threads that begin and end, and the time each took by itself.

use super::{
    CallTree, Frame, Json, Kind, Labels, LocationId, NodeId, Profile, Result, Threads, call_tree, text_field, word,
};
use crate::Nanos;

#[derive(Clone, Copy)]
enum What {
    Begin(LocationId),
    End,
    /// A whole call, which takes so many nanoseconds.
    Complete(LocationId, i64),
}

struct Entry {
    thread: u32,
    time: i64,
    what: What,
}

/// All calls of a trace.
pub(super) struct Calls {
    tree: CallTree,
    entries: Vec<Entry>,
}

impl Calls {
    pub(super) fn new(tree: CallTree) -> Calls {
        Calls { tree, entries: Vec::new() }
    }

    /// The frame of a call, with its place if the arguments have it.
    pub(super) fn frame(&mut self, name: &str, args: Option<Json<'_>>) -> Result<LocationId> {
        let (mut file, mut line) = (String::new(), 0);
        if let Some(mut args) = args.filter(|args| args.kind() == Ok(Kind::Object)) {
            file = text_field(args, "filename")?;
            if !file.is_empty()
                && let [Some(number)] = args.fields(["line"])?
            {
                line = word(number)?.parse().unwrap_or(0);
            }
        }
        let name = if name.is_empty() { "(anonymous)" } else { name };
        Ok(self.tree.frame(&Frame { name, file: &file, line, ..Frame::default() }))
    }

    pub(super) fn begin(&mut self, thread: u32, time: i64, frame: LocationId) {
        self.entries.push(Entry { thread, time, what: What::Begin(frame) });
    }

    pub(super) fn end(&mut self, thread: u32, time: i64) {
        self.entries.push(Entry { thread, time, what: What::End });
    }

    pub(super) fn complete(&mut self, thread: u32, time: i64, duration: i64, frame: LocationId) {
        self.entries.push(Entry { thread, time, what: What::Complete(frame, duration.max(0)) });
    }

    pub(super) fn finish(mut self, threads: &Threads, warnings: &mut Vec<String>) -> Result<Profile> {
        // Of calls that begin at once the longest is the outermost; else the order of the text counts.
        self.entries.sort_by_key(|entry| {
            let length = if let What::Complete(_, length) = entry.what { length } else { 0 };
            (entry.thread, entry.time, std::cmp::Reverse(length))
        });
        let (first, last) = self.entries.iter().fold((i64::MAX, i64::MIN), |(first, last), entry| {
            let end =
                if let What::Complete(_, length) = entry.what { entry.time.saturating_add(length) } else { entry.time };
            (first.min(entry.time), last.max(end))
        });
        self.tree.builder.time(Nanos(0), Nanos(last.saturating_sub(first).max(0)));
        let mut left_open = 0;
        let entries = std::mem::take(&mut self.entries);
        for of_thread in entries.chunk_by(|one, next| one.thread == next.thread) {
            let labels = threads.labels(of_thread[0].thread, &mut self.tree);
            let mut stack = Stack { tree: &mut self.tree, labels, open: Vec::new(), now: of_thread[0].time };
            for entry in of_thread {
                stack.read(entry)?;
            }
            left_open += stack.close();
        }
        if left_open > 0 {
            warnings.push(format!(
                "{}: {left_open} calls have no end; they are taken to end with their thread's last event",
                super::NAME
            ));
        }
        self.tree.finish()
    }
}

/// The open calls of a thread.
struct Stack<'a> {
    tree: &'a mut CallTree,
    labels: Labels,
    /// Each with its end, if that is known.
    open: Vec<(NodeId, Option<i64>)>,
    now: i64,
}

impl Stack<'_> {
    fn read(&mut self, entry: &Entry) -> Result<()> {
        self.advance(entry.time);
        let parent = self.open.last().map_or(call_tree::ROOT, |(node, _)| *node);
        match entry.what {
            What::Begin(frame) => self.open.push((self.tree.child(parent, frame)?, None)),
            What::Complete(frame, length) => {
                let end = entry.time.saturating_add(length);
                self.open.push((self.tree.child(parent, frame)?, Some(end)));
            }
            // Whole calls above the one that ends are cut; an end without a beginning is none of the trace's.
            What::End => {
                if let Some(begun) = self.open.iter().rposition(|(_, end)| end.is_none()) {
                    self.open.truncate(begun);
                }
            }
        }
        Ok(())
    }

    /// Goes on to a time, and ends what ends before.
    fn advance(&mut self, time: i64) {
        while let Some((_, Some(end))) = self.open.last().copied() {
            if end > time {
                break;
            }
            self.pass(end);
            self.open.pop();
        }
        self.pass(time);
    }

    /// Charges the time that passes to the innermost call.
    fn pass(&mut self, time: i64) {
        if let Some((node, _)) = self.open.last()
            && time > self.now
        {
            self.tree.add(*node, self.labels, &[time.saturating_sub(self.now)]);
        }
        self.now = self.now.max(time);
    }

    /// Ends the whole calls that are open, and gives how many others are.
    fn close(&mut self) -> usize {
        let last = self.open.iter().filter_map(|(_, end)| *end).max().unwrap_or(self.now);
        self.advance(last);
        self.open.iter().filter(|(_, end)| end.is_none()).count()
    }
}

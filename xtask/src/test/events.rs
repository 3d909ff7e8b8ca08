//! The events of a program of tests, a JSON object a line: those of libtest (`--format json`), which the reporter of the
//! browser tests writes, too.
//!
//! ```text
//! { "type": "test", "event": "started", "name": "cache::least_recently_used_goes" }
//! { "type": "test", "name": "cache::least_recently_used_goes", "event": "ok", "exec_time": 0.012 }
//! { "type": "suite", "event": "ok", "passed": 1, "failed": 0, "ignored": 0, "exec_time": 0.013 }
//! ```

use serde_json::Value;

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Passed,
    Failed,
    Ignored,
}

/// A test that has ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ended {
    pub(crate) name: String,
    pub(crate) ending: Ending,
    /// Wall time; 0 if the program does not tell it.
    pub(crate) seconds: f64,
    /// What the test printed; only of one that failed.
    pub(crate) output: String,
}

/// What a program told until it ended.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Events {
    pub(crate) ended: Vec<Ended>,
    /// Tests that started and did not end: the program died, or was ended.
    pub(crate) running: Vec<String>,
    /// Whether the program came to its end.
    pub(crate) is_complete: bool,
}

impl Events {
    /// Reads what a program wrote to its standard output; a process of a test may have written there, too.
    pub(crate) fn parse(output: &str) -> Events {
        let mut events = Events::default();
        output.lines().filter_map(event).for_each(|event| events.add(&event));
        events
    }

    /// Reads the plain output of examples in the documentation, whose programs cargo starts one after another.
    pub(crate) fn parse_examples(output: &str) -> Events {
        let ended = output.lines().filter_map(|line| {
            let (name, ending) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
            let ending = match ending {
                "ok" => Ending::Passed,
                "FAILED" => Ending::Failed,
                _ => Ending::Ignored,
            };
            // Of an example that does not compile, or panics, the name says so.
            let name = name.split_once(" - compile").map_or(name, |(name, _)| name).to_owned();
            let printed = output.split_once(&format!("\n---- {name} stdout ----\n")).map_or("", |(_, printed)| printed);
            let printed = printed.split("\n---- ").next().unwrap_or_default().to_owned();
            Some(Ended { name, ending, seconds: 0.0, output: printed })
        });
        Events { ended: ended.collect(), running: Vec::new(), is_complete: true }
    }

    fn add(&mut self, event: &Value) {
        let text = |key: &str| event[key].as_str().unwrap_or_default();
        if text("type") == "suite" {
            self.is_complete |= text("event") != "started";
            return;
        }
        let name = text("name").to_owned();
        let ending = match text("event") {
            "started" => return self.running.push(name),
            "ok" => Ending::Passed,
            "failed" => Ending::Failed,
            "ignored" => Ending::Ignored,
            _ => return,
        };
        self.running.retain(|running| *running != name);
        let seconds = event["exec_time"].as_f64().unwrap_or_default();
        self.ended.push(Ended { name, ending, seconds, output: text("stdout").to_owned() });
    }
}

/// The event of a line, which may follow an unfinished line of a test's process.
fn event(line: &str) -> Option<Value> {
    let start = line.find(r#"{ "type": ""#)?;
    serde_json::from_str(&line[start..]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_libtest_are_read_among_other_output() {
        let events = Events::parse(concat!(
            "{ \"type\": \"suite\", \"event\": \"started\", \"test_count\": 4 }\n",
            "{ \"type\": \"test\", \"event\": \"started\", \"name\": \"a\" }\n",
            "{ \"type\": \"test\", \"event\": \"started\", \"name\": \"b::c\" }\n",
            "a line of a server\n",
            "an unfinished line{ \"type\": \"test\", \"name\": \"b::c\", \"event\": \"failed\", \"exec_time\": 1.5, ",
            "\"stdout\": \"\\nthread panicked\\n\" }\n",
            "{ \"type\": \"test\", \"event\": \"timeout\", \"name\": \"a\" }\n",
            "{ \"type\": \"test\", \"name\": \"d\", \"event\": \"ignored\" }\n",
            "{ \"type\": \"test\", \"name\": \"a\", \"event\": \"ok\", \"exec_time\": 0.25 }\n",
            "{ \"type\": \"suite\", \"event\": \"failed\", \"passed\": 1, \"failed\": 1, \"exec_time\": 1.5 }\n",
        ));
        let ended = |name: &str, ending, seconds, output: &str| Ended {
            name: name.to_owned(),
            ending,
            seconds,
            output: output.to_owned(),
        };
        let expected = vec![
            ended("b::c", Ending::Failed, 1.5, "\nthread panicked\n"),
            ended("d", Ending::Ignored, 0.0, ""),
            ended("a", Ending::Passed, 0.25, ""),
        ];
        assert_eq!(events, Events { ended: expected, running: Vec::new(), is_complete: true });
    }

    #[test]
    fn examples_are_read_from_plain_output() {
        let events = Events::parse_examples(concat!(
            "running 2 tests\ntest src/a.rs - a::A (line 7) ... ok\n",
            "test src/a.rs - a::B (line 9) - compile ... ok\ntest src/b.rs - b (line 1) ... FAILED\n\n",
            "failures:\n\n---- src/b.rs - b (line 1) stdout ----\npanicked\n\nfailures:\n    src/b.rs - b (line 1)\n",
        ));
        let endings: Vec<_> = events.ended.iter().map(|test| (test.name.as_str(), test.ending)).collect();
        let expected = [
            ("src/a.rs - a::A (line 7)", Ending::Passed),
            ("src/a.rs - a::B (line 9)", Ending::Passed),
            ("src/b.rs - b (line 1)", Ending::Failed),
        ];
        assert_eq!(endings, expected);
        assert!(events.ended[2].output.starts_with("panicked\n"), "{}", events.ended[2].output);
    }

    #[test]
    fn tests_of_a_program_that_died_are_still_running() {
        let events = Events::parse("{ \"type\": \"test\", \"event\": \"started\", \"name\": \"a\" }\nAborted\n");
        assert_eq!(events, Events { ended: Vec::new(), running: vec!["a".to_owned()], is_complete: false });
    }
}

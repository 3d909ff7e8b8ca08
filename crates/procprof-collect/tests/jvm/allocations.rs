//! What the Flight Recorder's samples of allocations add up to, against the program's own count.

use std::collections::BTreeMap;
use std::io::Write;

use bytes::Bytes;
use procprof_collect::ContinuousRecording;
use procprof_profile::LabelValue;
use procprof_profile::format::{self, Limits};

use super::*;

const MIB: u64 = 1 << 20;

/// Bytes of each thread.
type Counts = BTreeMap<String, u64>;

impl Java {
    fn write(&mut self, command: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{command}").unwrap();
    }

    /// What the program's threads have allocated.
    fn counts(&mut self) -> Counts {
        self.write("count");
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let numbers = line.split_whitespace().map(|number| number.parse().unwrap());
        ["steady", "late", "born", "virtual"].map(str::to_owned).into_iter().zip(numbers).collect()
    }

    /// Waits until a thread has allocated so much more than then.
    fn wait_for(&mut self, thread: &str, since: &Counts, bytes: u64) {
        let start = Instant::now();
        while self.counts()[thread] < since[thread] + bytes {
            assert!(start.elapsed() < PATIENCE, "{thread} does not allocate");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The `java` on the PATH, and those of other versions that are installed beside it.
fn javas() -> Vec<PathBuf> {
    let output = Command::new("sh").args(["-c", "readlink -f \"$(command -v java)\""]).output().unwrap();
    let mut javas = vec![PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())];
    for entry in std::fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten() {
        if let Ok(java) = entry.path().join("bin/java").canonicalize().and_then(|java| java.canonicalize()) {
            javas.push(java);
        }
    }
    javas.sort();
    javas.dedup();
    javas
}

/// Sampled bytes by thread; those of virtual threads, which have no names, have the name "".
fn sampled(bytes: &[u8]) -> Counts {
    let mut counts = Counts::new();
    for decoded in format::decode_events(bytes, &Limits::default()).unwrap() {
        let profile = decoded.profile;
        for sample in profile.samples().filter(|_| decoded.event == "alloc") {
            let mut names = sample.labels.iter().filter_map(|label| match label.value {
                LabelValue::Text(text) if profile.string(label.key) == "thread" => Some(profile.string(text)),
                _ => None,
            });
            *counts.entry(names.next().unwrap_or_default().to_owned()).or_default() += sample.values[1].unsigned_abs();
        }
    }
    counts
}

async fn cut(session: &mut Box<dyn ContinuousRecording>) -> Bytes {
    let answer = session.cut().await.unwrap();
    let Ok(RecordingData::Encoded(bytes)) = &answer.recordings[0].content else { panic!("{answer:?}") };
    bytes.clone()
}

#[tokio::test]
async fn allocations_before_a_recording_are_not_counted() {
    for java in javas() {
        let mut java = Java::start_command(Command::new(java).arg(source("Allocate.java")));
        let source = JvmSource::new(JvmOptions {
            target: JvmTarget::Pid(java.pid),
            engine: JvmEngine::FlightRecorder,
            settings: FlightSettings::default(),
        });
        let before = java.counts();
        let mut session = source.begin(&Request::new(ProfileType::Alloc), "test").await.unwrap();
        java.write("born");
        let begun = java.counts();
        for thread in ["steady", "born"] {
            java.wait_for(thread, &begun, 64 * MIB);
        }
        let ending = java.counts();
        let first = cut(&mut session).await;
        let between = java.counts();
        java.write("late");
        java.wait_for("late", &begun, 64 * MIB);
        let second = cut(&mut session).await;
        let after = java.counts();

        let (all_first, all_second) = (sampled(&first), sampled(&second));
        let shown = format!("{before:?} {ending:?} {between:?} {after:?}\n{all_first:?}\n{all_second:?}");
        for thread in ["steady", "born"] {
            let (least, most) = (ending[thread] - begun[thread], between[thread] - before[thread]);
            let counted = all_first[thread];
            assert!((least / 2..most + most / 4 + 8 * MIB).contains(&counted), "{thread}: {shown}");
        }
        assert!((16 * MIB..96 * MIB).contains(&all_second["late"]), "{shown}");
        let total = all_first.values().chain(all_second.values()).sum::<u64>();
        let most = after.iter().map(|(thread, bytes)| bytes - before[thread]).sum::<u64>();
        assert!(total < most + most / 4 + 64 * MIB, "{total}: {shown}");

        // Without the baseline in front it is the recording as other readers have it.
        let length = u64::from_be_bytes(second[8..16].try_into().unwrap()) as usize;
        let plain = sampled(&second[length..])["late"];
        assert!(plain > 2048 * MIB, "{plain}: {shown}");
    }
}

//! A bar on the terminal while a capture runs; nothing when standard error is no terminal.

use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use procprof_collect::Progress;
use tokio::task::JoinHandle;

/// The bar of one capture; it goes away when dropped.
pub(crate) struct Bar {
    bar: ProgressBar,
    clock: JoinHandle<()>,
}

impl Bar {
    /// An empty bar. Must be called inside a tokio runtime.
    pub(crate) fn new(label: &str) -> Bar {
        Bar::with_label(ProgressBar::new(0), label)
    }

    /// The same below the bars of other captures.
    pub(crate) fn below(others: &MultiProgress, label: &str) -> Bar {
        Bar::with_label(others.add(ProgressBar::new(0)), label)
    }

    fn with_label(bar: ProgressBar, label: &str) -> Bar {
        if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} [{bar:40}] {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(label.to_owned());
        let clock = tokio::spawn(follow_time(bar.clone()));
        Bar { bar, clock }
    }

    /// The callback for the capture's progress.
    pub(crate) fn listener(&self) -> Arc<dyn Fn(Progress) + Send + Sync> {
        let bar = self.bar.clone();
        Arc::new(move |progress| match progress {
            Progress::Sampling { seconds } => {
                bar.set_length(u64::from(seconds));
                bar.set_message(if seconds == 0 { "waiting".to_owned() } else { format!("{seconds} s") });
            }
            Progress::Receiving { bytes, .. } => bar.set_message(format!("{bytes} bytes")),
            Progress::Checking => bar.set_message("checking"),
        })
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.clock.abort();
        self.bar.finish_and_clear();
    }
}

/// The process sends nothing while it samples: the bar follows the clock.
async fn follow_time(bar: ProgressBar) {
    let begun = Instant::now();
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        bar.set_position(begun.elapsed().as_secs().min(bar.length().unwrap_or(0)));
        bar.tick();
    }
}

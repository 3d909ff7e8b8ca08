//! A bar on the terminal while a capture runs; nothing when standard error is no terminal.

use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use procprof_collect::Progress;
use procprof_profile::ProfileType;
use tokio::task::JoinHandle;

/// The bar of one capture.
pub(super) struct Bar {
    bar: ProgressBar,
    clock: JoinHandle<()>,
}

impl Bar {
    /// An empty bar.
    pub(super) fn new(profile_type: &ProfileType) -> Bar {
        let bar = ProgressBar::new(1);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} [{bar:40}] {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(profile_type.label().to_owned());
        let clock = tokio::spawn(follow_time(bar.clone()));
        Bar { bar, clock }
    }

    /// What the capture reports to.
    pub(super) fn listener(&self) -> Arc<dyn Fn(Progress) + Send + Sync> {
        let bar = self.bar.clone();
        Arc::new(move |progress| match progress {
            Progress::Sampling { seconds } => {
                bar.set_length(u64::from(seconds));
                bar.set_message(format!("{seconds} s"));
            }
            Progress::Receiving { bytes, .. } => bar.set_message(format!("{bytes} bytes")),
            Progress::Checking => bar.set_message("checking"),
        })
    }

    /// Removes the bar from the terminal.
    pub(super) fn finish(self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.clock.abort();
    }
}

/// The process says nothing while it samples: the bar follows the clock.
async fn follow_time(bar: ProgressBar) {
    let begun = Instant::now();
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        bar.set_position(begun.elapsed().as_secs().min(bar.length().unwrap_or(0)));
    }
}

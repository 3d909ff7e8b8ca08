//! A kind for tests: not over HTTP, with keys of its own, whose source answers one request with several recordings.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use procprof_collect::{Instance, Offer, Pending, Recording, RecordingData, Recordings, Request, Source, Watch};
use procprof_profile::format::Decoded;
use procprof_profile::{Nanos, ProfileBuilder, ProfileType};

use super::{KindRow, KindSource, NodeConfig, NodeOption, OptionType, OptionValue};
use crate::clock::now;

const OFFERS: &[Offer] =
    &[Offer::moment(ProfileType::Cpu).on(), Offer::moment(ProfileType::Alloc).on(), Offer::sampled(ProfileType::Wall)];

const OPTIONS: &[NodeOption] = &[
    NodeOption {
        name: "leaf",
        option_type: OptionType::Text,
        default: "work",
        help: "The function that all samples are in.",
    },
    NodeOption {
        name: "breaks",
        option_type: OptionType::Boolean,
        default: "false",
        help: "Whether its allocations are no profile.",
    },
    NodeOption {
        name: "omits",
        option_type: OptionType::Boolean,
        default: "false",
        help: "Whether it leaves its allocations out.",
    },
    NodeOption {
        name: "value",
        option_type: OptionType::Count(1, 1000),
        default: "10",
        help: "The value of its samples.",
    },
    NodeOption { name: "mood", option_type: OptionType::OneOf(&["calm", "wild"]), default: "calm", help: "How it is." },
];

pub(super) static ROW: KindRow = KindRow {
    options: OPTIONS,
    records_together: true,
    check: |node| match node.options.contains_key("leaf") {
        true => Ok(()),
        false => Err("a fake node needs leaf".to_owned()),
    },
    address: |node| format!("fake {}", leaf(node)),
    ..KindRow::new(
        "fake",
        "nothing, for tests",
        KindSource::Custom {
            offers: OFFERS,
            make: |context| Ok(Arc::new(FakeSource { node: context.node.clone(), answers: AtomicU64::new(0) })),
        },
    )
};

fn leaf(node: &NodeConfig) -> String {
    match node.options.get("leaf") {
        Some(OptionValue::Text(leaf)) => leaf.clone(),
        _ => "work".to_owned(),
    }
}

struct FakeSource {
    node: NodeConfig,
    answers: AtomicU64,
}

impl FakeSource {
    fn answer(&self) -> Recordings {
        let number = self.answers.fetch_add(1, Ordering::SeqCst) + 1;
        let value = match self.node.options.get("value") {
            Some(OptionValue::Count(value)) => *value as i64,
            _ => 10,
        };
        let leaf = leaf(&self.node);
        let cpu = RecordingData::Encoded(Bytes::from(format!("main;{leaf} {value}\n")));
        let alloc = match self.node.options.get("breaks") {
            Some(OptionValue::Boolean(true)) => RecordingData::Encoded(Bytes::from_static(b"<html>no profile")),
            _ => {
                let mut builder = ProfileBuilder::new(&[("alloc_space", "bytes")]);
                let frame = builder.frame(&leaf);
                builder.sample(&[frame], &[value], &[]);
                let profile = builder.finish().expect("a profile of one sample");
                RecordingData::Decoded(Box::new(Decoded::new(profile, "fake", Vec::new())), 0)
            }
        };
        let omits = matches!(self.node.options.get("omits"), Some(OptionValue::Boolean(true)));
        let both = [(ProfileType::Cpu, cpu), (ProfileType::Alloc, alloc)];
        let made = both.into_iter().filter(|(profile_type, _)| !omits || *profile_type == ProfileType::Cpu);
        let recordings = made.map(|(profile_type, content)| {
            let mut recording = Recording::new(profile_type, Ok(content), now(), Nanos(0));
            recording.facts.insert("answer".to_owned(), number.to_string());
            recording.labels.insert("made".to_owned(), "up".to_owned());
            recording
        });
        Recordings { recordings: recordings.collect(), origin: "the fake".to_owned(), instance: Instance::default() }
    }
}

impl Source for FakeSource {
    fn record<'a>(&'a self, _: &'a Request, _: &'a Watch) -> Pending<'a, Recordings> {
        Box::pin(async { Ok(self.answer()) })
    }
}

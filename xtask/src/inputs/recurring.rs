//! CPU profiles that a node's process makes each minute: of the same stacks, with values that vary.

use anyhow::Result;
use procprof_profile::format::pprof;
use procprof_profile::{
    Addr, Function, Label, Line, Location, LocationId, Mapping, MappingId, Nanos, Profile, ProfileBuilder,
};

use super::Random;

/// Stacks of the process, of which more than half are in each profile.
const STACKS: usize = 211;
const FUNCTIONS: u64 = 900;
const BASE: u64 = 0x5555_5555_0000;
/// Names that statements ask for; all others are numbered.
const NAMED: &[&str] = &["execute", "scan", "aggregate", "hash_join"];

/// The stacks of a process, as numbers of functions, root first.
pub(crate) struct Process {
    stacks: Vec<Vec<u64>>,
}

impl Process {
    pub(crate) fn new() -> Process {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let mut stacks: Vec<Vec<u64>> = Vec::new();
        for number in 0..STACKS {
            let mut stack = match stacks.last() {
                // As the stack before, up to a frame.
                Some(before) => before[..1 + random.below(before.len() as u64 - 1) as usize].to_vec(),
                None => vec![FUNCTIONS],
            };
            let length = 8 + random.below(22) as usize;
            while stack.len() < length {
                stack.push(random.below(FUNCTIONS));
            }
            if number % 9 == 0 {
                stack.push(number as u64 / 9 % NAMED.len() as u64);
            }
            stacks.push(stack);
        }
        Process { stacks }
    }

    /// The profile, as packed pprof, that a node has completed at a moment.
    pub(crate) fn profile(&self, node: u64, completed: Nanos) -> Result<Vec<u8>> {
        let mut random = Random(0x2545_f491_4f6c_dd1d ^ (node << 48) ^ completed.0.cast_unsigned());
        let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
        let filename = builder.intern("/opt/starrocks/be/lib/starrocks_be");
        let build_id = builder.intern("bbbb2222");
        let mapping = builder.mapping(Mapping {
            start: Addr(BASE),
            limit: Addr(BASE + 0x1000_0000),
            filename,
            build_id,
            ..Mapping::default()
        });
        let mut locations: Vec<Option<LocationId>> = vec![None; FUNCTIONS as usize + 1];
        for (number, stack) in self.stacks.iter().enumerate() {
            if random.below(100) < 45 {
                continue;
            }
            // Each stack has a usual value, from which this one is a few percent away.
            let count = 20 + (number as i64 * 37) % 400;
            let count = count + count * (random.below(11) as i64 - 5) / 100;
            let stack: Vec<LocationId> =
                stack.iter().rev().map(|function| location(&mut builder, mapping, *function, &mut locations)).collect();
            let labels: Vec<Label> = if number % 5 == 0 {
                vec![builder.text_label("query_id", &format!("q{}", number % 40))]
            } else {
                Vec::new()
            };
            builder.sample(&stack, &[count, count * 10_000_000], &labels);
        }
        builder.period("cpu", "nanoseconds", 10_000_000);
        builder.time(Nanos(completed.0 - 10_000_000_000), Nanos(10_000_000_000));
        let profile: Profile = builder.finish()?;
        Ok(pprof::encode_gzip(&profile)?)
    }
}

fn location(
    builder: &mut ProfileBuilder,
    mapping: MappingId,
    function: u64,
    locations: &mut [Option<LocationId>],
) -> LocationId {
    if let Some(id) = locations[function as usize] {
        return id;
    }
    let name = match NAMED.get(function as usize) {
        Some(name) => (*name).to_owned(),
        None => format!("starrocks::pipeline::Operator{}::step_{function}(starrocks::RuntimeState*)", function % 61),
    };
    let (name, system_name) = (builder.intern(&name), builder.intern(&format!("_ZN9starrocks8pipeline{function}EPv")));
    let filename = builder.intern(&format!("be/src/exec/pipeline/operator_{}.cpp", function % 61));
    let line = Line {
        function: builder.function(Function { name, system_name, filename, start_line: 20 }),
        line: 20 + function as i64 % 90,
        column: 0,
    };
    let id = builder.location(Location::new(Some(mapping), Addr(BASE + 0x1000 + function * 64)), &[line]);
    locations[function as usize] = Some(id);
    id
}

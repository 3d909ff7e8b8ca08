//! pprof's own format: a protobuf message `Profile`, usually gzip'd.
//!
//! The message is `perftools.profiles.Profile` of
//! <https://github.com/google/pprof/blob/main/proto/profile.proto>:
//!
//! ```text
//! Profile    1 sample_type* 2 sample* 3 mapping* 4 location* 5 function* 6 string_table* 7 drop_frames 8 keep_frames 9 time_nanos
//!            10 duration_nanos 11 period_type 12 period 13 comment* 14 default_sample_type 15 doc_url
//!            1000 sampling (1 Poisson, 2 linear) 1001 sampling_rate 1002 captured (1 CPU stacks, 2 return addresses)
//! ValueType  1 type 2 unit
//! Sample     1 location_id* 2 value* 3 label* 1000 raw_value*
//! Label      1 key 2 str 3 num 4 num_unit
//! Mapping    1 id 2 memory_start 3 memory_limit 4 file_offset 5 filename 6 build_id 7 has_functions 8 has_filenames
//!            9 has_line_numbers 10 has_inline_frames
//! Location   1 id 2 mapping_id 3 address 4 line* 5 is_folded 1000 is_return
//! Line       1 function_id 2 line 3 column
//! Function   1 id 2 name 3 system_name 4 filename 5 start_line
//! ```
//! Fields from 1000 on are ours; other readers pass over them. They hold what was measured where the standard fields
//! hold estimates and call sites, so that [`Profile::unadjusted`](crate::Profile::unadjusted) can give back the profile
//! as captured. For example, a profile that is only one sample type (`samples` / `count`):
//!
//! ```text
//! 0a 04 08 01 10 02  32 00  32 07 73 61 6d 70 6c 65 73  32 05 63 6f 75 6e 74
//! ```

mod decode;
mod detect;
mod encode;
mod id_table;

pub use encode::{encode, encode_gzip};

use crate::format::Format;
use crate::format::protobuf::{Fault, FaultKind};
use crate::{Error, Place};

const NAME: &str = "pprof";

pub(crate) const FORMAT: Format = Format {
    name: NAME,
    help: "pprof protobuf, plain or gzip'd",
    detect: detect::detect,
    decode: decode::decode,
    events: None,
    encode: Some(encode::encode_gzip),
};

/// Sampling kinds of `Profile.sampling`.
mod sampling {
    pub(super) const POISSON: i64 = 1;
    pub(super) const LINEAR: i64 = 2;
}

/// Kinds of `Profile.captured`.
mod captured {
    pub(super) const RAW_CPU: i64 = 1;
    pub(super) const RAW_RETURN: i64 = 2;
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        match fault.kind {
            FaultKind::Cut(what) => Error::Truncated { format: NAME, place: Place::Offset(fault.offset), what },
            FaultKind::Wrong(what) => malformed(fault.offset, what),
        }
    }
}

fn malformed(offset: usize, what: impl Into<String>) -> Error {
    Error::Malformed { format: NAME, place: Place::Offset(offset), what: what.into() }
}

#[cfg(test)]
mod tests;

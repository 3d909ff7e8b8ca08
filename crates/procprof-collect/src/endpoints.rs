//! The endpoints of known systems over HTTP: one constant per system.

use std::fmt;

use procprof_profile::ProfileType;

use crate::route::{HttpEndpoint, Offer, Route};

/// The endpoints of one system's processes.
#[derive(Debug)]
pub struct Endpoints {
    /// The system, as errors name it: `go`, `databend`, …
    pub name: &'static str,
    /// Each profile type, where it is, and its default schedule.
    pub routes: &'static [Route],
    /// Whether a target with URLs by profile type has no other profiles than these.
    pub urls_instead: bool,
    /// The page that names addresses.
    pub symbols: HttpEndpoint,
    /// brpc's page of variables, by which a restart of a process on another host is noticed.
    pub variables: Option<HttpEndpoint>,
    /// Whether HTTP 404 and 501 with a sentence mean that the process works and does not have this profile: our agent
    /// answers so.
    pub reports_absence: bool,
}

impl Endpoints {
    /// How `profile_type` is collected, if it can be.
    pub fn route(&self, profile_type: &ProfileType) -> Option<&'static Route> {
        self.routes.iter().find(|route| route.offer.profile_type == *profile_type)
    }

    /// Endpoints on the web service, names at `/debug/pprof/symbol`.
    pub const fn new(name: &'static str, routes: &'static [Route]) -> Endpoints {
        let symbols = HttpEndpoint::http("/debug/pprof/symbol");
        Endpoints { name, routes, urls_instead: false, symbols, variables: None, reports_absence: false }
    }
}

impl fmt::Display for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

const STARROCKS_BE_ROUTES: &[Route] = &[
    Route::new(
        Offer::sampled(ProfileType::Cpu).on(),
        &[HttpEndpoint::brpc("/pprof/profile")],
        "gperftools CPU profile",
    ),
    Route::new(
        Offer::sampled(ProfileType::Contention),
        &[HttpEndpoint::brpc("/pprof/contention")],
        "brpc contention text",
    ),
    Route::new(
        Offer::moment(ProfileType::Heap),
        &[HttpEndpoint::http("/pprof/heap"), HttpEndpoint::brpc("/pprof/heap")],
        "jemalloc or tcmalloc heap text",
    ),
];

/// A StarRocks backend or compute node: brpc and BE HTTP endpoints.
pub static STARROCKS_BE: Endpoints = Endpoints {
    symbols: HttpEndpoint::brpc("/pprof/symbol"),
    variables: Some(HttpEndpoint::brpc("/vars/pid;process_uptime?console=1")),
    ..Endpoints::new("starrocks-be", STARROCKS_BE_ROUTES)
};

/// A StarRocks frontend: pages of profiles that it makes by itself, which
/// [`FrontendSource`](crate::frontend::FrontendSource) reads.
pub static STARROCKS_FE: Endpoints = Endpoints::new("starrocks-fe", &[]);

const DATABEND_ROUTES: &[Route] = &[
    Route::new(
        Offer::sampled(ProfileType::Cpu).on().with_frequency(),
        &[HttpEndpoint::http("/debug/pprof/profile")],
        "pprof protobuf",
    ),
    Route::new(
        Offer::moment(ProfileType::Heap),
        &[HttpEndpoint::http("/debug/mem/pprof/profile?seconds=0")],
        "jemalloc heap text",
    ),
];

/// A Databend query or meta process: its admin service.
pub static DATABEND: Endpoints = Endpoints::new("databend", DATABEND_ROUTES);

const GO_ROUTES: &[Route] = &[
    Route::new(Offer::sampled(ProfileType::Cpu).on(), &[HttpEndpoint::http("/debug/pprof/profile")], "pprof protobuf"),
    Route::new(
        Offer::moment(ProfileType::Heap).on().or_delta(),
        &[HttpEndpoint::http("/debug/pprof/heap")],
        "pprof protobuf",
    ),
    Route::new(
        Offer::moment(ProfileType::Goroutine).on(),
        &[HttpEndpoint::http("/debug/pprof/goroutine")],
        "pprof protobuf",
    ),
    Route::new(
        Offer::sampled(ProfileType::Alloc).or_delta(),
        &[HttpEndpoint::http("/debug/pprof/allocs")],
        "pprof protobuf",
    ),
    Route::new(
        Offer::sampled(ProfileType::Mutex).or_delta(),
        &[HttpEndpoint::http("/debug/pprof/mutex")],
        "pprof protobuf",
    ),
    Route::new(
        Offer::sampled(ProfileType::Contention).or_delta(),
        &[HttpEndpoint::http("/debug/pprof/block")],
        "pprof protobuf",
    ),
    Route::new(
        Offer::moment(ProfileType::GoroutineLeak),
        &[HttpEndpoint::http("/debug/pprof/goroutineleak")],
        "pprof protobuf",
    ),
];

/// A Go process with `net/http/pprof`. `heap`, `allocs`, `mutex` and `block` are totals since the start; with
/// `seconds`, the difference. `goroutineleak` is there from Go 1.26 on, if the program was built with it.
pub static GO: Endpoints = Endpoints::new("go", GO_ROUTES);

const PPROF_ROUTES: &[Route] = &[
    Route::new(
        Offer::sampled(ProfileType::Cpu).on().with_frequency(),
        &[HttpEndpoint::http("/debug/pprof/profile")],
        "any CPU profile",
    ),
    Route::new(Offer::sampled(ProfileType::Wall), &[], "any wall-clock profile"),
    Route::new(Offer::sampled(ProfileType::Contention), &[], "any contention profile"),
    Route::new(Offer::moment(ProfileType::Heap), &[HttpEndpoint::http("/debug/pprof/heap")], "any heap profile"),
];

/// Anything that answers pprof URLs: the paths that most tools use, or one configured URL per profile type.
pub static PPROF: Endpoints = Endpoints {
    urls_instead: true,
    symbols: HttpEndpoint::http("/pprof/symbol"),
    ..Endpoints::new("pprof", PPROF_ROUTES)
};

const PROCPROF_ROUTES: &[Route] = &[
    Route::new(
        Offer::sampled(ProfileType::Cpu).on().with_frequency().seconds(60),
        &[HttpEndpoint::http("/debug/pprof/profile?symbolize=0")],
        "pprof protobuf",
    ),
    Route::new(
        Offer::moment(ProfileType::Heap).on(),
        &[HttpEndpoint::http("/debug/pprof/heap?symbolize=0")],
        "pprof protobuf",
    ),
    Route::new(Offer::sampled(ProfileType::Alloc), &[HttpEndpoint::http("/debug/pprof/allocs")], "pprof protobuf"),
    Route::new(
        Offer::sampled(ProfileType::Contention),
        &[HttpEndpoint::http("/debug/pprof/contention?symbolize=0")],
        "pprof protobuf",
    ),
    Route::new(
        Offer::sampled(ProfileType::Mutex),
        &[HttpEndpoint::http("/debug/pprof/mutex?symbolize=0")],
        "pprof protobuf",
    ),
    Route::new(Offer::sampled(ProfileType::Wall), &[HttpEndpoint::http("/debug/pprof/wall")], "pprof protobuf"),
];

/// A process with our agent. Addresses only: the names are found by who collects, not at the cost of the profiled
/// process.
pub static PROCPROF: Endpoints = Endpoints { reports_absence: true, ..Endpoints::new("procprof", PROCPROF_ROUTES) };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_gives_cpu_profiles_by_default() {
        for endpoints in [&STARROCKS_BE, &DATABEND, &GO, &PPROF, &PROCPROF] {
            assert!(endpoints.route(&ProfileType::Cpu).is_some_and(|route| route.offer.schedule.on), "{endpoints}");
        }
    }
}

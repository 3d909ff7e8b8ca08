//! The offers of a process: profile types with their windows and default schedules, and, over HTTP, the endpoints that
//! serve them.

use procprof_profile::ProfileType;

/// Which of a process's two HTTP services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpService {
    /// Its web service ([`Target::http`](crate::Target::http)).
    Http,
    /// Its brpc service ([`Target::brpc`](crate::Target::brpc)).
    Brpc,
}

/// One endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpEndpoint {
    /// The service that has it.
    pub service: HttpService,
    /// Path below the service's base address, perhaps with a fixed query.
    pub path: &'static str,
}

impl HttpEndpoint {
    /// A path of the web service.
    pub const fn http(path: &'static str) -> HttpEndpoint {
        HttpEndpoint { service: HttpService::Http, path }
    }

    /// A path of the brpc service.
    pub const fn brpc(path: &'static str) -> HttpEndpoint {
        HttpEndpoint { service: HttpService::Brpc, path }
    }
}

/// The span of time a profile is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// The requested seconds; they must be given.
    Seconds,
    /// The time of the request; seconds other than 0 are refused.
    Moment,
    /// The moment (or all since the start) without seconds; what came in between with them.
    MomentOrDelta,
}

/// How often a profile is taken unless configured otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Whether it is collected unless switched off.
    pub on: bool,
    /// Length of a capture; 0 for a moment.
    pub seconds: u32,
    /// Time from one start to the next; equal to `seconds` means without gaps.
    pub interval_seconds: u32,
}

/// One profile type that a process can give, and on which terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The profile type.
    pub profile_type: ProfileType,
    /// The span of time that a profile covers.
    pub window: Window,
    /// Whether a sampling frequency can be requested.
    pub takes_frequency: bool,
    /// Whether the schedule keeps one recording running and cuts it, so that nothing is lost between two profiles.
    pub continuous: bool,
    /// The default schedule.
    pub schedule: Schedule,
}

impl Offer {
    /// A type that is sampled for some seconds: 10 s every 60 s, off.
    pub const fn sampled(profile_type: ProfileType) -> Offer {
        let schedule = Schedule { on: false, seconds: 10, interval_seconds: 60 };
        Offer { profile_type, window: Window::Seconds, takes_frequency: false, continuous: false, schedule }
    }

    /// A type that is of a moment: every 60 s, off.
    pub const fn moment(profile_type: ProfileType) -> Offer {
        let schedule = Schedule { on: false, seconds: 0, interval_seconds: 60 };
        Offer { profile_type, window: Window::Moment, takes_frequency: false, continuous: false, schedule }
    }

    /// The same, collected unless switched off.
    pub const fn on(mut self) -> Offer {
        self.schedule.on = true;
        self
    }

    /// The same, with a sampling frequency that can be requested.
    pub const fn with_frequency(mut self) -> Offer {
        self.takes_frequency = true;
        self
    }

    /// The same, of a moment without seconds and a difference with them.
    pub const fn or_delta(mut self) -> Offer {
        self.window = Window::MomentOrDelta;
        self
    }

    /// The same, for so many seconds by default.
    pub const fn seconds(mut self, seconds: u32) -> Offer {
        self.schedule.seconds = seconds;
        self
    }

    /// The same, recorded without gaps and cut at each interval.
    pub const fn continuous(mut self) -> Offer {
        self.continuous = true;
        self
    }
}

/// One profile type over HTTP.
#[derive(Clone, Debug)]
pub struct Route {
    /// The type and its terms.
    pub offer: Offer,
    /// The endpoints, the first choice first; a later one is tried when an earlier one is unreachable or has no such
    /// endpoint. Empty where only a configured URL gives the place.
    pub endpoints: &'static [HttpEndpoint],
    /// What is expected there, as a text for errors.
    pub expects: &'static str,
}

impl Route {
    /// A type at these endpoints.
    pub const fn new(offer: Offer, endpoints: &'static [HttpEndpoint], expects: &'static str) -> Route {
        Route { offer, endpoints, expects }
    }
}

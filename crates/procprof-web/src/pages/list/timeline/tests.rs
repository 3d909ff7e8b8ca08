//! Gaps and restarts.

use procprof_core::nodes::Planned;
use procprof_profile::{ProfileId, ProfileType};

use super::{Point, SECOND, gaps, restarts};

fn point(started: i64, instance: i64) -> Point {
    Point {
        id: ProfileId(1),
        started: started * SECOND,
        completed: (started + 10) * SECOND,
        total: 1,
        instance: instance * SECOND,
        threads: 0,
    }
}

#[test]
fn a_pause_longer_than_the_schedule_is_a_gap() {
    let planned = Planned { profile_type: ProfileType::Cpu, on: true, seconds: 10, every: 60 };
    let lane: Vec<Point> = [0, 60, 120, 600, 660].map(|started| point(started, 0)).to_vec();
    assert_eq!(gaps(&lane, &planned, None), [(130 * SECOND, 600 * SECOND)]);
    assert_eq!(gaps(&lane, &planned, Some(700 * SECOND)).len(), 1, "the next one is on its way");
    assert_eq!(gaps(&lane, &planned, Some(1000 * SECOND))[1], (670 * SECOND, 1000 * SECOND));
    assert!(gaps(&[], &planned, Some(1000 * SECOND)).is_empty());
}

#[test]
fn a_later_start_of_the_process_is_a_restart_seen_once() {
    let cpu = vec![point(100, 5), point(160, 6), point(220, 200), point(280, 0), point(340, 201)];
    let heap = vec![point(110, 5), point(230, 200)];
    assert_eq!(restarts([cpu.clone(), heap].iter(), 0), [200 * SECOND]);
    assert!(restarts([cpu].iter(), 300 * SECOND).is_empty(), "before the period");
}

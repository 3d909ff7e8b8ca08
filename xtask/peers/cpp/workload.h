// What the units of the workload share.
#pragma once
#include <map>
#include <memory>
#include <vector>

// What was allocated, so that it stays.
using Kept = std::vector<std::shared_ptr<void>>;
using Work = void (*)(unsigned seed, int rounds, Kept& kept);

// The units by their numbers; each enters itself before `main`.
inline std::map<int, Work>& units() {
    static std::map<int, Work> units;
    return units;
}

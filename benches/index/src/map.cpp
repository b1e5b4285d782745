// libstdc++'s std::map under the same jobs, in a process of its own.
//
// Reads lines `JOB COUNT` and answers each with `NANOSECONDS CHECK`: the processor time of the
// timed part, divided by the operations, and the sum of the values found. Keys, orders and sums are
// those of main.rs, made from the same numbers.

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <map>
#include <vector>

namespace {

using Map = std::map<std::uint64_t, std::uint32_t>;

struct Dice {
    std::uint64_t state;

    std::uint64_t roll() {
        state += 0x9e3779b97f4a7c15;
        std::uint64_t mixed = state;
        mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
        mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
        return mixed ^ (mixed >> 31);
    }
};

double nanoseconds() {
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

std::vector<std::uint64_t> random_keys(std::size_t count) {
    Dice dice{1};
    std::vector<std::uint64_t> keys(count);
    for (auto& key : keys) key = dice.roll();
    return keys;
}

std::vector<std::uint64_t> shuffled(std::vector<std::uint64_t> keys) {
    Dice dice{2};
    for (std::size_t last = keys.size(); last-- > 1;) {
        std::swap(keys[last], keys[dice.roll() % (last + 1)]);
    }
    return keys;
}

void fill(Map& map, const std::vector<std::uint64_t>& keys) {
    for (std::size_t at = 0; at < keys.size(); ++at) {
        map.emplace(keys[at], static_cast<std::uint32_t>(at));
    }
}

}  // namespace

int main() {
    char job[16];
    std::size_t count;
    Map map;
    while (std::scanf("%15s %zu", job, &count) == 2) {
        map.clear();
        std::vector<std::uint64_t> keys = random_keys(count);
        const std::vector<std::uint64_t> order = shuffled(keys);
        if (!std::strcmp(job, "ascending") || !std::strcmp(job, "fifo")) {
            for (std::size_t at = 0; at < count; ++at) keys[at] = at;
        }
        std::uint64_t check = 0;
        double begin = nanoseconds();
        if (!std::strcmp(job, "random") || !std::strcmp(job, "ascending")) {
            fill(map, keys);
            check = map.size();
        } else {
            fill(map, keys);
            begin = nanoseconds();
            if (!std::strcmp(job, "find")) {
                for (std::uint64_t key : order) {
                    const auto found = map.find(key);
                    check += found == map.end() ? 0 : found->second;
                }
            } else if (!std::strcmp(job, "remove")) {
                for (std::uint64_t key : order) check += map.erase(key);
            } else if (!std::strcmp(job, "fifo")) {
                for (std::size_t at = 0; at < count; ++at) {
                    map.emplace(count + at, 0);
                    check += map.erase(at);
                }
            } else {
                for (const auto& pair : map) check += pair.second;
            }
        }
        const double end = nanoseconds();
        std::printf("%f %llu\n", (end - begin) / static_cast<double>(count),
                    static_cast<unsigned long long>(check));
        std::fflush(stdout);
    }
}

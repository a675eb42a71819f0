#include "cli/bench_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "cli/output.h"
#include "cli/processes.h"
#include "cli/table.h"

namespace vitrine::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRoundTrips = 51;
constexpr std::int64_t kTransferBytes = std::int64_t{16} << 20;
constexpr int kTransfers = 3;

struct Link {
  double latency_s = 0, bytes_per_s = 0;
};

double elapsed_s(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Rank `from` sends, and `to` returns one byte when everything has arrived. Both measure; the result is that of
/// `from`. The wait between polls belongs to the latency, as it does in a run.
Link measure_link(Ranks& ranks, int from, int to, std::span<std::byte> buffer) {
  const bool sends = ranks.rank() == from;
  const int other = sends ? to : from;
  const auto round_trip = [&](std::span<std::byte> bytes) {
    const Clock::time_point begun = Clock::now();
    std::byte answer{};
    if (sends) ranks.wait(ranks.send(other, bytes, Channel::control));
    if (!sends) ranks.wait(ranks.receive(other, bytes, Channel::control));
    if (!sends) ranks.wait(ranks.send(other, {&answer, 1}, Channel::control));
    if (sends) ranks.wait(ranks.receive(other, {&answer, 1}, Channel::control));
    return elapsed_s(begun);
  };
  std::vector<double> times;
  for (int i = 0; i < kRoundTrips; ++i) times.push_back(round_trip(buffer.first(1)));
  std::nth_element(times.begin(), times.begin() + kRoundTrips / 2, times.end());
  Link link{times[kRoundTrips / 2] / 2, 0};
  for (int i = 0; i < kTransfers; ++i) {
    const double seconds = round_trip(buffer) - link.latency_s;
    link.bytes_per_s = std::max(link.bytes_per_s, static_cast<double>(buffer.size()) / seconds);
  }
  return link;
}

}  // namespace

void run_bench_network(double peer_timeout_s, bool json) {
  run_on_ranks(peer_timeout_s, [&](Ranks& ranks) {
    ranks.together([&] {
      if (ranks.is_alone()) throw BadInput("--network", "expected several ranks, as in mpirun -n 2 vitrine bench");
    });
    std::vector<std::byte> buffer(static_cast<std::size_t>(kTransferBytes));
    using Align = Table::Align;
    Table table({{"from"}, {"to"}, {"latency", Align::right}, {"bandwidth", Align::right}});
    Json pairs = Json::array();
    for (int from = 0; from < ranks.size(); ++from) {
      for (int to = 0; to < ranks.size(); ++to) {
        if (from == to) continue;
        Link link;
        if (ranks.rank() == from || ranks.rank() == to) link = measure_link(ranks, from, to, buffer);
        const std::vector<Link> all = ranks.gather_values<Link>({&link, 1});  // also the end of this pair's turn
        link = all[static_cast<std::size_t>(from)];
        pairs.push_back({{"from", from}, {"to", to}, {"latency_s", link.latency_s}, {"bytes_per_s", link.bytes_per_s}});
        table.add({ranks.name(from), ranks.name(to), fmt::format("{:.0f} µs", link.latency_s * 1e6),
                   fmt::format("{:.0f} MB/s", link.bytes_per_s / 1e6)});
      }
    }
    if (!ranks.is_first()) return;
    Json hosts = Json::array();
    for (int r = 0; r < ranks.size(); ++r) hosts.push_back(ranks.host(r));
    if (json) return print_json({{"ranks", ranks.size()}, {"hosts", hosts}, {"network", pairs}});
    print(table.text());
  });
}

}  // namespace vitrine::cli

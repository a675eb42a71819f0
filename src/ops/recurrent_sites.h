// The sites of recurrent cells, forward and in the reverse direction.
#pragma once

#include "pass/sites.h"

namespace vitrine {

enum class CellSite : std::uint8_t {
  cell_i,
  cell_f,
  cell_g,
  cell_o,
  cell_r,
  cell_z,
  cell_n,
  cell_c,
  cell_h,
  reverse_i,
  reverse_f,
  reverse_g,
  reverse_o,
  reverse_r,
  reverse_z,
  reverse_n,
  reverse_c,
  reverse_h,
};

/// d_hidden of a cell.
namespace dims {
inline constexpr Dim d_h{"d_h"};
}  // namespace dims

inline constexpr auto kCellSites = [] {
  using namespace dims;
  return std::to_array<SiteInfo>({
      {SitePlace::layer, kDefault, "cell.hook_i", {T, d_h}, "an LSTM's input gate"},
      {SitePlace::layer, kDefault, "cell.hook_f", {T, d_h}, "an LSTM's forget gate"},
      {SitePlace::layer, kDefault, "cell.hook_g", {T, d_h}, "an LSTM's candidate for c"},
      {SitePlace::layer, kDefault, "cell.hook_o", {T, d_h}, "an LSTM's output gate"},
      {SitePlace::layer, kDefault, "cell.hook_r", {T, d_h}, "a GRU's reset gate"},
      {SitePlace::layer, kDefault, "cell.hook_z", {T, d_h}, "a GRU's update gate"},
      {SitePlace::layer, kDefault, "cell.hook_n", {T, d_h}, "a GRU's candidate for h"},
      {SitePlace::layer, kDefault, "cell.hook_c", {T, d_h}, "an LSTM's c after each token"},
      {SitePlace::layer, kDefault, "cell.hook_h", {T, d_h}, "a cell's h after each token"},
      {SitePlace::layer, kDefault, "cell_reverse.hook_i", {T, d_h}, "an LSTM's input gate, in the reverse direction"},
      {SitePlace::layer, kDefault, "cell_reverse.hook_f", {T, d_h}, "an LSTM's forget gate, in the reverse direction"},
      {SitePlace::layer,
       kDefault,
       "cell_reverse.hook_g",
       {T, d_h},
       "an LSTM's candidate for c, in the reverse direction"},
      {SitePlace::layer, kDefault, "cell_reverse.hook_o", {T, d_h}, "an LSTM's output gate, in the reverse direction"},
      {SitePlace::layer, kDefault, "cell_reverse.hook_r", {T, d_h}, "a GRU's reset gate, in the reverse direction"},
      {SitePlace::layer, kDefault, "cell_reverse.hook_z", {T, d_h}, "a GRU's update gate, in the reverse direction"},
      {SitePlace::layer,
       kDefault,
       "cell_reverse.hook_n",
       {T, d_h},
       "a GRU's candidate for h, in the reverse direction"},
      {SitePlace::layer,
       kDefault,
       "cell_reverse.hook_c",
       {T, d_h},
       "an LSTM's c after each token, in the reverse direction"},
      {SitePlace::layer,
       kDefault,
       "cell_reverse.hook_h",
       {T, d_h},
       "a cell's h after each token, in the reverse direction"},
  });
}();
inline constexpr SiteTable kCellSiteTable{"recurrent", kCellSites};
constexpr const SiteTable& sites_of(CellSite) { return kCellSiteTable; }
static_assert(kCellSites.size() == static_cast<std::size_t>(CellSite::reverse_h) + 1);

}  // namespace vitrine

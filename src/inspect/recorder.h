// Reading and modifying the sites of a forward by name.
#pragma once

#include <bitset>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "inspect/site_write.h"
#include "model/config.h"
#include "model/sites.h"
#include "pass/dictionary.h"
#include "pass/taps.h"

namespace vitrine {

/// The layers that a model has sites of.
struct SiteLayers {
  int n_layers = 0;
  int n_experts = 0;                      ///< The largest number of experts in a layer.
  int n_encoder_layers = -1;              ///< −1: no encoder.
  std::vector<SiteId> of_dictionaries{};  ///< The values of the dictionaries that are attached.
};
SiteLayers site_layers(const ModelConfig& config, AppliedDictionaries dictionaries = {});

/// A set of sites, selected by globs (`*`, `?`, `[…]`) over full names. Without globs it is the default set; an empty
/// glob selects nothing. Sites that are on demand need a glob that ends in their name (`blocks.*.attn.hook_result`).
/// Not thread-safe.
class SiteSelection {
 public:
  SiteSelection(std::vector<std::string> globs, const SiteLayers& layers);

  bool contains(const SiteId& id) const;
  std::int64_t count() const;  ///< An upper bound on the number of these sites in a pass.
  /// The last selected site in the order of a forward.
  std::optional<SiteId> last() const;
  /// "; did you mean …?" with the name of a site of the model that resembles a glob; "" if there is none.
  std::string nearest_to(const std::string& glob) const;

 private:
  using Sites = std::vector<bool>;  // in the order of all_sites()

  static std::size_t index(const SiteId& id);
  bool is_chosen(const SiteId& id) const;
  template <class Visit>
  void for_each(const Sites& sites, Visit&& visit) const;
  template <class Visit>
  void for_each_chosen(Visit&& visit) const;

  std::vector<std::string> globs_;
  SiteLayers layers_;
  Sites candidates_;  // of any layer: the globs exclude the others
  /// What contains() has found, by index(): without sites of experts, which may be many.
  enum class Known : std::uint8_t { nothing, no, yes };
  mutable std::vector<Known> known_{};
};

/// Taps that apply writes and pass the selected values, after any write, to a receiver. In a dry run writes are only
/// checked.
class Recorder : public Taps {
 public:
  using Receive = std::function<void(const SiteId&, const Tensor&)>;

  Recorder(std::vector<std::string> globs, std::vector<SiteWrite> writes, const SiteLayers& layers, Receive receive);

  /// An upper bound on the number of sites whose values the receiver gets.
  std::int64_t max_sites() const { return selection_.count(); }
  bool wants(const SiteId& id) const override { return selection_.contains(id) || written_.contains(id); }
  Tensor visit(Pass& pass, const SiteId& id, const Tensor& value) override;
  void visit_step(Pass& pass, const SiteId& id, const Tensor& value, std::int64_t first, std::int64_t count,
                  const Tensor& factor) override;
  void visit_steps(Pass& pass, const SiteId& id, const Tensor& value) override;
  std::optional<SiteId> last_wanted() const override;

  /// Large values that a pass computes for the taps alone (Taps::wanted_rows) are computed for these rows only, and go
  /// to this receiver; not those that are written.
  void receive_rows(WantedRows rows, Receive receive) {
    rows_ = rows;
    receive_rows_ = std::move(receive);
  }
  std::optional<WantedRows> wanted_rows(const SiteId& id) const override {
    return written_.contains(id) ? std::nullopt : rows_;
  }
  void visit_rows(Pass& pass, const SiteId& id, const Tensor& rows) override;

  /// The receiver gets what a pass may divide (Taps::takes_groups) in groups of rows.
  void receive_groups() { takes_groups_ = true; }
  bool takes_groups(const SiteId& id) const override { return takes_groups_ && !written_.contains(id); }

  /// Sets a receiver of the gradients at the selected sites, for passes with a tape.
  void receive_gradients(Receive receive) { receive_gradient_ = std::move(receive); }
  bool wants_gradient(const SiteId& id) const override { return receive_gradient_ && selection_.contains(id); }
  void visit_gradient(Pass& pass, const SiteId& id, const Tensor& gradient) override;

  /// Throws BadInput if a glob or a write has matched no site in the passes so far: the model has no such site.
  /// `but_experts`: not for globs and writes that name experts, of which a pass may use some only.
  void check_all_met(bool but_experts = false) const;
  /// The same for writes only.
  void check_writes_met(bool but_experts = false) const;

 private:
  void meet(const SiteId& id);

  std::vector<std::string> globs_;
  std::vector<SiteWrite> writes_;
  SiteSelection selection_;
  SiteSelection written_;
  Receive receive_, receive_gradient_, receive_rows_;
  std::optional<WantedRows> rows_;
  SiteId last_;  // the last site of either
  bool takes_groups_ = false;
  std::vector<bool> glob_met_, write_met_;
};

}  // namespace vitrine

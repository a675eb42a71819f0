// Watching a forward: which sites to see, what to write into them, and where the values go.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pass/taps.h"

namespace vitrine {

/// A set of sites, chosen by globs (`*`, `?`, `[…]`) over full names. No glob: the default set; an empty one: nothing.
/// A site that is seen on demand only needs a glob that ends in its own name (`blocks.*.attn.hook_result`).
class SiteSelection {
 public:
  /// `n_experts`: of the layer that has most of them.
  SiteSelection(std::vector<std::string> globs, int n_layers, int n_experts = 0);

  bool contains(const SiteId& id) const;
  std::int64_t count() const;  ///< The most sites that a pass can meet.
  /// The last of them in the order of a forward.
  std::optional<SiteId> last() const;

 private:
  static std::size_t index(const SiteId& id);
  bool is_chosen(const SiteId& id) const;
  template <class Visit>
  void for_each_chosen(Visit&& visit) const;

  std::vector<std::string> globs_;
  int n_layers_;
  int n_experts_;
  std::vector<bool> chosen_;  // but for those of single experts, of which there may be many: they are asked by name
};

/// A write into a site: `SITE[index]=value`, `SITE[index]*=factor` or `SITE[index]+=summand`. The index is one entry
/// for each dimension from the left: a number (from the end if negative), a range `a:b`, or `:`; what is left out is
/// `:`. SITE may be a glob.
struct SiteWrite {
  enum class Op : std::uint8_t { set, multiply, add };
  struct Range {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    bool whole = true;      ///< `:`
    bool open_end = false;  ///< `a:`
  };

  std::string text;  ///< As it was given, for messages.
  std::string glob;
  std::vector<Range> index;
  Op op = Op::set;
  float value = 0;
};

/// Throws BadInput where the text does not have that form.
SiteWrite parse_site_write(std::string_view text);

/// Taps that apply writes and hand the chosen values, after any write, to a receiver.
class Recorder : public Taps {
 public:
  using Receive = std::function<void(const SiteId&, const Tensor&)>;

  /// `n_experts`: of the layer that has most of them.
  Recorder(std::vector<std::string> globs, std::vector<SiteWrite> writes, int n_layers, Receive receive,
           int n_experts = 0);

  /// The most sites that the receiver may be handed.
  std::int64_t most_sites() const { return selection_.count(); }
  bool wants(const SiteId& id) const override { return selection_.contains(id) || written_.contains(id); }
  Tensor visit(Pass& pass, const SiteId& id, const Tensor& value) override;
  std::optional<SiteId> last_wanted() const override;

  /// Asks for the gradients at the chosen sites, in passes with a tape.
  void receive_gradients(Receive receive) { receive_gradient_ = std::move(receive); }
  bool wants_gradient(const SiteId& id) const override { return receive_gradient_ && selection_.contains(id); }
  void visit_gradient(Pass& pass, const SiteId& id, const Tensor& gradient) override;

  /// Throws BadInput where a glob or a write met no site in the passes so far: it names nothing that this model has.
  void check_all_met() const;
  /// The same for writes alone.
  void check_writes_met() const;

 private:
  std::vector<std::string> globs_;
  std::vector<SiteWrite> writes_;
  SiteSelection selection_;
  SiteSelection written_;
  Receive receive_, receive_gradient_;
  SiteId last_;  // the last site of either
  std::vector<bool> glob_met_, write_met_;
};

}  // namespace vitrine

// A response from whole texts that a model reads at once: vectors, or outputs of a head.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/json.h"
#include "serve/modifier_fields.h"
#include "serve/pending_reply.h"
#include "serve/routes.h"
#include "serve/text_attribution.h"
#include "serve/text_sites.h"

namespace vitrine {

/// The texts of a request, or its pairs of texts.
struct TextsToRead {
  std::vector<std::vector<std::int32_t>> ids, types{};  ///< As TextIds.
  std::vector<TextMarks> marks{};
  std::int64_t n_tokens = 0;
  ChosenModifiers modifiers{};
  std::shared_ptr<TextSites> sites{};              ///< Null: no values are read or changed.
  std::shared_ptr<TextAttribution> attribution{};  ///< Null: nothing is explained.

  /// The reading with that of the sites, and with the attribution.
  TextReading with_wishes(TextReading reading) const {
    if (sites != nullptr) reading = TextSites::recorded(sites, std::move(reading));
    if (attribution != nullptr) reading = TextAttribution::explained(attribution, std::move(reading));
    return reading;
  }
};

/// Adds the values of sites to a response: the member `vitrine` of an object, `{"texts"}`. A list becomes the member
/// `data` of such an object.
Json with_sites(Json reply, Json texts);
/// The same for an attribution: `{"attribution"}`.
Json with_attribution(Json reply, const Json& attribution);

class ReadReply : public PendingReply {
 public:
  using Values = std::vector<std::vector<float>>;
  /// Makes the response of the values of all texts.
  using Write = std::function<Json(const Values& values, const JobTimes& times)>;

  ReadReply(TextsToRead texts, const RouteRequest& from, TextReading reading, Write write)
      : n_tokens_(texts.n_tokens),
        sites_(texts.sites),
        attribution_(texts.attribution),
        task_(std::make_shared<TextTask>(from.client, std::move(texts.ids), std::move(texts.types),
                                         std::move(texts.modifiers.list), texts.with_wishes(std::move(reading)),
                                         from.notify, std::move(texts.marks), std::move(texts.modifiers.model))),
        write_(std::move(write)) {}

  void submit(Scheduler& scheduler) override { scheduler.submit(task_); }
  void cancel() override { task_->cancel(); }
  JobTimes times() const override { return task_->times(); }
  Usage usage() const override { return {n_tokens_, 0, 0}; }
  bool take() override { return (values_ = task_->take()).has_value(); }
  bool has_ended() const override { return values_.has_value(); }
  HttpReply reply() override {
    Json json = write_(*values_, times());
    if (sites_ != nullptr) json = with_sites(std::move(json), sites_->json());
    if (attribution_ != nullptr) json = with_attribution(std::move(json), attribution_->json());
    return {200, json_text(json)};
  }

 private:
  std::int64_t n_tokens_;
  std::shared_ptr<TextSites> sites_;
  std::shared_ptr<TextAttribution> attribution_;
  std::shared_ptr<TextTask> task_;
  Write write_;
  std::optional<Values> values_;
};

}  // namespace vitrine

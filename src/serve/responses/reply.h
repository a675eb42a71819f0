// Answers in the form of OpenAI's Responses interface (https://platform.openai.com/docs/api-reference/responses): an
// object whose `output` has items, or the events of a stream.
#pragma once

#include <string>
#include <string_view>

#include "base/ordered_json.h"
#include "serve/doors.h"
#include "serve/logprobs.h"
#include "serve/responses/custom_input.h"
#include "serve/responses/request.h"

namespace vitrine {

/// The tokens of a text whose parts go to different places.
class TokensOfText {
 public:
  /// A token, as it is in a response, and the bytes that it adds to the text.
  void add(const Json& token, std::string_view bytes);
  /// The tokens that make up the next part of the text. Forgets all tokens up to its end.
  OrderedJson take(std::string_view part);

 private:
  struct Entry {
    OrderedJson token;
    std::size_t begin, end;  // in text_
  };
  std::string text_{};
  std::vector<Entry> entries_{};
};

/// The response to a request of one sequence. The whole object is what its events build.
class ResponsesReply : public DoorReply {
 public:
  /// `id` is the response's number, `created` Unix time. Keeps references to `model` and `request`.
  ResponsesReply(const ServedModel& model, const CompletionRequest& request, ResponsesRequest asked,
                 const std::string& id, std::int64_t created);

  std::string whole(std::span<const GenerateResult> results) override;
  std::string events(SequenceStep step) override;
  std::string error_event(const RequestError& error) override;
  std::string_view own_name(std::string_view field) const override { return name_in_responses(field); }

 private:
  enum class Item : std::uint8_t { none, reasoning, message, function, custom };
  struct Kind;
  static const Kind& kind_of(Item item);

  OrderedJson& output() { return response_["output"]; }
  OrderedJson& item() { return output().back(); }
  bool has_parts() const { return open_ == Item::reasoning || open_ == Item::message; }
  OrderedJson part() const;
  OrderedJson usage_json() const;
  std::string event(std::string_view type, OrderedJson members);
  std::string item_event(std::string_view type, OrderedJson members);
  std::string part_event(std::string_view type, OrderedJson members);
  std::string state_event(std::string_view type);
  std::string begin();
  std::string open(Item kind, OrderedJson members);
  std::string close(bool is_cut);
  std::string piece(std::string_view text);
  std::string text_piece(Item kind, const std::string& text);
  std::string call_piece(const answer::AnswerDelta::Call& call);
  std::string pieces(const answer::AnswerDelta& delta);
  std::string end(const GenerateResult& result);
  std::string add_token(const TokenReport& token);
  std::string add_whole(const GenerateResult& result);

  ResponsesRequest asked_;
  std::string id_;
  OrderedJson response_;  // so far
  Logprobs logprobs_;
  TokenTexts token_texts_;
  TokensOfText tokens_{};  // if they are reported
  std::int64_t n_events_ = 0;
  bool has_begun_ = false;
  Item open_ = Item::none;  // the kind of the last item, if it goes on
  std::string text_{};      // of that item
  OrderedJson token_list_ = OrderedJson::array();
  CustomInput input_{};
};

}  // namespace vitrine

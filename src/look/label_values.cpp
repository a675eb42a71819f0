// The figures of a text that has labels, or of a query and a document: the outputs, what wrote one of them, the words
// that it depends on, and the heads that join the two texts.
#include <algorithm>

#include "generate/classify.h"
#include "look/figures.h"

namespace vitrine {
namespace {

/// The mean weight that the tokens of text `from` give all tokens of text `to`; NaN if one of them has no token.
double joining(std::span<const float> pattern, std::span<const std::int8_t> texts, std::int8_t from, std::int8_t to) {
  double sum = 0;
  std::size_t n = 0;
  for (std::size_t t = 0; t < texts.size(); ++t) {
    if (texts[t] != from) continue;
    ++n;
    for (std::size_t s = 0; s < texts.size(); ++s) {
      if (texts[s] == to) sum += static_cast<double>(pattern[t * texts.size() + s]);
    }
  }
  return n > 0 && std::find(texts.begin(), texts.end(), to) != texts.end() ? sum / static_cast<double>(n) : kNoValue;
}

void add_joining(const Recording& r, const LookLabel& label, LookData& data) {
  const ModelConfig& config = *r.facts.config;
  const std::int64_t most = max_heads(config);
  const auto n_layers = static_cast<std::int64_t>(config.n_layers());
  const auto n = static_cast<std::size_t>(r.n_tokens());
  std::vector<double> to_second(static_cast<std::size_t>(n_layers * most), kNoValue), to_first = to_second;
  for (std::int64_t l = 0; l < n_layers; ++l) {
    const std::string site = in_block(l, "attn.hook_pattern");
    if (!r.has(site)) continue;
    const std::span<const float> all(r.value(site).values);
    for (std::int64_t h = 0; h < r.shape(site)[0]; ++h) {
      const auto pattern = all.subspan(static_cast<std::size_t>(h) * n * n, n * n);
      to_second[static_cast<std::size_t>(l * most + h)] = joining(pattern, label.texts, 0, 1);
      to_first[static_cast<std::size_t>(l * most + h)] = joining(pattern, label.texts, 1, 0);
    }
  }
  data.add("heads", "heads.to_second", {n_layers, most}, to_second);
  data.add("heads", "heads.to_first", {n_layers, most}, to_first);
}

}  // namespace

void add_head_attribution(const Recording& r, std::span<const AttributionTerm> terms, LookData& data) {
  const std::int64_t most = max_heads(*r.facts.config);
  const auto n_layers = static_cast<std::int64_t>(r.facts.config->n_layers());
  std::vector<double> heads(static_cast<std::size_t>(n_layers * most), kNoValue);
  for (std::int64_t l = 0; l < n_layers; ++l) {
    for (std::int64_t h = 0; h < most; ++h) {
      const std::string name = in_block(l, "attn.head." + std::to_string(h));
      const auto term =
          std::find_if(terms.begin(), terms.end(), [&](const AttributionTerm& t) { return t.name == name; });
      if (term != terms.end()) heads[static_cast<std::size_t>(l * most + h)] = term->value;
    }
  }
  data.add("attribution", "attribution.head", {n_layers, most}, heads);
}

void add_label_values(const GenerateContext& context, const Recording& r, const LookLabel& label, LookData& data) {
  const TaskHead& head = *r.facts.config->task;
  const std::vector<float>& outputs = r.value("head.hook_out").values;
  const std::span<const float> row =
      head.pool == TaskHead::Pool::none ? r.row("head.hook_out", r.position) : std::span<const float>(outputs);
  data.add(kTextBlock, "label.output", std::vector<float>(row.begin(), row.end()));
  data.label(head.labels);
  data.add(kTextBlock, "label.score", scores_of(score_function(head), row));
  data.label(head.labels);

  const Tokens tokens(r.facts.ids, label.types);
  const LabelAttribution parts = attribute_label(context, tokens, label.choice, false);
  std::vector<double> values;
  std::vector<std::string> names;
  for (const AttributionTerm& term : parts.terms) {
    names.push_back(term.name);
    values.push_back(term.value);
  }
  data.add("attribution", "attribution.component", values);
  data.label(names);
  data.add("attribution", "attribution.remainder", {}, std::vector{parts.output - parts.sum});
  add_head_attribution(r, attribute_label(context, tokens, label.choice, true).terms, data);

  const TokenAttribution words = integrate_gradients(context, tokens, label.choice, label.path);
  data.add("words", "attribution.token", words.tokens);
  data.add("words", "attribution.ends", std::vector{words.output, words.baseline});
  data.label({"the text", "the baseline"});
  add_joining(r, label, data);
}

}  // namespace vitrine

// Chooses the cells of an example that are written out.
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/nearest.h"
#include "base/text.h"
#include "example/spell.h"

namespace vitrine {
namespace {

/// The largest element of a parameter, or of the last position's row of a site.
std::int64_t own_choice(const ExampleSection& s) {
  const auto n = static_cast<std::int64_t>(s.values.size());
  std::int64_t first = 0, count = n;
  const bool of_param = s.name.find("hook_") == std::string::npos && s.name != "softmax";
  if (!of_param) {
    const std::int64_t rows = s.by_first ? s.shape[1] : s.shape[0];
    count = s.by_first ? s.shape[2] : n / rows;
    first = (rows - 1) * count;  // of the first table
  }
  std::int64_t best = first;
  const auto size = [&](std::int64_t i) { return std::abs(s.values[static_cast<std::size_t>(i)]); };
  for (std::int64_t i = first; i < first + count; ++i) {
    if (std::isfinite(size(i)) && (!std::isfinite(size(best)) || size(i) > size(best))) best = i;
  }
  return best;
}

/// The section and element that `NAME[1,2]` names.
struct CellRequest {
  ExampleSection* section;
  std::int64_t flat;
};

CellRequest find_cell(WorkedExample& example, const std::string& text) {
  const std::size_t bracket = text.find('[');
  if (bracket == std::string::npos || text.back() != ']') {
    throw BadInput("--cell", "expected SITE[row,column], got \"{}\"", text);
  }
  const std::string name = text.substr(0, bracket);
  std::vector<std::string> names;
  for (const ExampleSection& s : example.sections) names.push_back(s.name);
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    throw BadInput("--cell", "there is no \"{}\" in this example{}", name, did_you_mean(name, names));
  }
  ExampleSection& section = example.sections[static_cast<std::size_t>(found - names.begin())];
  std::vector<std::int64_t> sizes(section.shape.sizes().begin(), section.shape.sizes().end()), index;
  const auto list = std::string_view(text).substr(bracket + 1, text.size() - bracket - 2);
  for (const std::string_view part : split(list, ',')) {
    const auto i = number_in<std::int64_t>(part);
    if (!i) throw BadInput("--cell", "expected SITE[row,column] with whole numbers, got \"{}\"", text);
    index.push_back(*i);
  }
  // Heads are columns of one table.
  if (index.size() == 2 && sizes.size() == 3 && !section.by_first) sizes = {sizes[0], sizes[1] * sizes[2]};
  bool inside = index.size() == sizes.size();
  std::int64_t flat = 0;
  for (std::size_t i = 0; inside && i < sizes.size(); ++i) {
    inside = index[i] >= 0 && index[i] < sizes[i];
    flat = flat * sizes[i] + index[i];
  }
  if (!inside) throw BadInput("--cell", "{}: {} has shape {}", text, name, to_string(section.shape));
  return {&section, flat};
}

/// The summary of an example's finite differences.
DifferenceSummary summary_of(const WorkedExample& example) {
  DifferenceSummary summary;
  for (const ExampleSection& s : example.sections) {
    for (std::size_t i = 0; i < s.differences.size(); ++i) {
      const Difference& d = s.differences[i];
      summary.taken += d.taken ? 1 : 0;
      summary.not_smooth += d.taken && !d.smooth ? 1 : 0;
      const double by = std::abs(static_cast<double>(s.values[i]) - d.slope);
      if (!d.taken || !d.smooth || by < summary.largest) continue;
      summary.largest = by;
      summary.where = name_of_element(s.name, s.shape, static_cast<std::int64_t>(i));
      summary.expected = d.error;
    }
  }
  return summary;
}

void spell_out(const Facts& facts, ExampleSection& s, std::int64_t flat) {
  const std::optional<Arithmetic> arithmetic = spell(facts, s.name, flat);
  if (!arithmetic) return;
  s.cells.push_back({name_of_element(s.name, s.shape, flat), arithmetic->text(), arithmetic->value(),
                     s.values[static_cast<std::size_t>(flat)]});
}

}  // namespace

void add_cells(const Facts& facts, const std::vector<std::string>& requested, WorkedExample& example) {
  std::set<const ExampleSection*> chosen;
  for (const std::string& text : requested) {
    const CellRequest request = find_cell(example, text);
    chosen.insert(request.section);
    const std::size_t before = request.section->cells.size();
    spell_out(facts, *request.section, request.flat);
    if (request.section->cells.size() == before) {
      throw BadInput("--cell", "{} has no arithmetic to show", text);
    }
  }
  for (ExampleSection& s : example.sections) {
    if (s.part != ExamplePart::model && s.part != ExamplePart::prediction && !chosen.contains(&s) &&
        !s.values.empty()) {
      spell_out(facts, s, own_choice(s));
    }
  }
  example.differences = summary_of(example);
}

}  // namespace vitrine

#include <cstring>
#include <map>

#include "engine.h"

namespace vitrine::python {
namespace {

using Replacement = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;

/// The functions of one site.
struct SiteHooks {
  nb::object site;
  std::vector<nb::object> functions;
};

template <class Size>
std::string text_of_shape(const Size* sizes, std::size_t rank) {
  std::string text = "[";
  for (std::size_t i = 0; i < rank; ++i) text += (i > 0 ? ", " : "") + std::to_string(sizes[i]);
  return text + "]";
}

/// What a hook returned, as an array of the value's shape.
Replacement replacement_of(const nb::object& result, const std::string& name, std::span<const std::int64_t> shape) {
  Replacement array;
  if (!nb::try_cast(result, array)) {
    const std::string type = nb::cast<std::string>(nb::handle(Py_TYPE(result.ptr())).attr("__name__"));
    throw nb::type_error(("[" + name + "] a hook must return None or an array of numbers, got " + type).c_str());
  }
  const std::string got = text_of_shape(array.shape_ptr(), array.ndim());
  const std::string expected = text_of_shape(shape.data(), shape.size());
  if (got != expected) raise_bad_input("[" + name + "] a replacement must have shape " + expected + ", got " + got);
  return array;
}

/// Calls the functions of a site, each with an array of its own: a copy of what the one before has made of the value.
class Hooks {
 public:
  explicit Hooks(nb::object find) : find_(std::move(find)) {}

  bool call(const std::string& name, std::span<const std::int64_t> shape, std::span<const float> value,
            std::span<float> replacement) {
    const SiteHooks& hooks = of(name);
    const float* now = value.data();
    nb::object array;  // it or `returned` keeps `now`
    Replacement returned;
    for (const nb::object& function : hooks.functions) {
      float* copy = nullptr;
      nb::object own = new_array(shape, copy);
      std::memcpy(copy, now, value.size_bytes());
      const nb::object result = function(own, hooks.site);
      array = std::move(own);
      now = copy;
      if (result.is_none() || result.is(array)) continue;
      returned = replacement_of(result, name, shape);
      now = returned.data();
    }
    if (now == value.data() || std::memcmp(now, value.data(), value.size_bytes()) == 0) return false;
    std::memcpy(replacement.data(), now, value.size_bytes());
    return true;
  }

 private:
  const SiteHooks& of(const std::string& name) {
    const auto known = by_name_.find(name);
    if (known != by_name_.end()) return known->second;
    const nb::tuple found = nb::cast<nb::tuple>(find_(name));
    SiteHooks hooks{nb::borrow(found[0]), {}};
    for (const nb::handle function : nb::cast<nb::list>(found[1])) hooks.functions.push_back(nb::borrow(function));
    return by_name_.emplace(name, std::move(hooks)).first->second;
  }

  nb::object find_;
  std::map<std::string, SiteHooks> by_name_;
};

}  // namespace

Watch watch_of(const nb::object& find, std::vector<std::string> sites) {
  if (find.is_none()) return {};
  const std::shared_ptr<Hooks> hooks = shared(Hooks(find));
  Watch watch;
  watch.sites = std::move(sites);
  watch.tap = [hooks](const std::string& name, std::span<const std::int64_t> shape, std::span<const float> value,
                      std::span<float> replacement) {
    return with_gil([&] { return hooks->call(name, shape, value, replacement); });
  };
  return watch;
}

}  // namespace vitrine::python

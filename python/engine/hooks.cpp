#include <cstring>
#include <map>
#include <memory>

#include "engine.h"

namespace vitrine::python {
namespace {

/// The functions of one site.
struct SiteHooks {
  nb::object site;
  std::vector<nb::object> functions;
};

/// What a hook returned, as an array of the value's shape.
nb::ndarray<const float, nb::c_contig, nb::device::cpu> replacement_of(const nb::object& result,
                                                                       const std::string& name,
                                                                       std::span<const std::int64_t> shape) {
  nb::ndarray<const float, nb::c_contig, nb::device::cpu> array;
  if (!nb::try_cast(result, array)) {
    const std::string type = nb::cast<std::string>(nb::handle(Py_TYPE(result.ptr())).attr("__name__"));
    throw nb::type_error(("[" + name + "] a hook must return None or an array of numbers, got " + type).c_str());
  }
  const auto text = [](auto&& at, std::size_t rank) {
    std::string all = "[";
    for (std::size_t i = 0; i < rank; ++i) all += (i > 0 ? ", " : "") + std::to_string(at(i));
    return all + "]";
  };
  bool fits = array.ndim() == shape.size();
  for (std::size_t i = 0; fits && i < shape.size(); ++i) {
    fits = static_cast<std::int64_t>(array.shape(i)) == shape[i];
  }
  if (fits) return array;
  const std::string expected = text([&](std::size_t i) { return shape[i]; }, shape.size());
  const std::string got = text([&](std::size_t i) { return array.shape(i); }, array.ndim());
  const std::string message = "[" + name + "] a replacement must have shape " + expected + ", got " + got;
  nb::object type = nb::module_::import_("vitrine._errors").attr("BadInput");
  PyErr_SetString(type.ptr(), message.c_str());
  throw nb::python_error();
}

/// Calls the hooks of a site with a copy of its value, each with what the last one has made of it.
class Hooks {
 public:
  explicit Hooks(nb::object find) : find_(std::move(find)) {}

  bool call(const std::string& name, std::span<const std::int64_t> shape, std::span<const float> value,
            std::span<float> replacement) {
    const SiteHooks& hooks = of(name);
    if (hooks.functions.empty()) return false;
    float* copy = nullptr;
    nb::object array = new_array(shape, copy);
    std::memcpy(copy, value.data(), value.size_bytes());
    const float* now = copy;
    nb::ndarray<const float, nb::c_contig, nb::device::cpu> returned;  // keeps `now`
    for (const nb::object& function : hooks.functions) {
      nb::object result = function(array, hooks.site);
      if (result.is_none() || result.is(array)) continue;
      returned = replacement_of(result, name, shape);
      now = returned.data();
      array = std::move(result);
    }
    if (std::memcmp(now, value.data(), value.size_bytes()) == 0) return false;
    std::memcpy(replacement.data(), now, value.size_bytes());
    return true;
  }

 private:
  const SiteHooks& of(const std::string& name) {
    const auto known = by_name_.find(name);
    if (known != by_name_.end()) return known->second;
    nb::tuple found = nb::cast<nb::tuple>(find_(name));
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
  // The last owner may let go without the GIL.
  const std::shared_ptr<Hooks> hooks(new Hooks(find), [](Hooks* p) {
    const nb::gil_scoped_acquire gil;
    delete p;
  });
  Watch watch;
  watch.sites = std::move(sites);
  watch.tap = [hooks](const std::string& name, std::span<const std::int64_t> shape, std::span<const float> value,
                      std::span<float> replacement) {
    const nb::gil_scoped_acquire gil;
    return hooks->call(name, shape, value, replacement);
  };
  return watch;
}

}  // namespace vitrine::python

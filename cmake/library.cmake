# vitrine::vitrine, the library as users see it: one archive of all modules but the program's, and the public headers.
set(objects "")
foreach(module ${VITRINE_MODULES})
  if(NOT module MATCHES "^(capi|cli|example|look|serve)$")
    list(APPEND objects $<TARGET_OBJECTS:vitrine_${module}>)
  endif()
endforeach()
add_library(vitrine_library STATIC ${objects})
add_library(vitrine::vitrine ALIAS vitrine_library)
set_target_properties(vitrine_library PROPERTIES OUTPUT_NAME vitrine EXPORT_NAME vitrine LINKER_LANGUAGE CXX)
target_compile_features(vitrine_library INTERFACE cxx_std_20)
target_link_libraries(vitrine_library PRIVATE fmt::fmt Threads::Threads PkgConfig::PCRE2 PkgConfig::UTF8PROC PkgConfig::YAML ZLIB::ZLIB CURL::libcurl OpenSSL::Crypto)
target_include_directories(vitrine_library INTERFACE $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
  $<INSTALL_INTERFACE:include>)

# vitrine.h and what it includes. "module/name.h" becomes <vitrine/module/name.h> in a public header, so that the include
# path has one folder, vitrine.
set(interface vitrine/vitrine.h base/exceptions.h checkpoint/sampling_overrides.h generate/open_options.h generate/options.h generate/result.h generate/sampler.h generate/speculation_counts.h generate/watch.h pass/compute.h pass/dictionary_use.h tensor/dtype.h tensor/kv_type.h tokenizer/tokenizer.h tokenizer/fim_tokens.h tokenizer/function_ref.h tokenizer/explanation.h train/progress.h)
foreach(header ${interface})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${header})
  file(READ ${PROJECT_SOURCE_DIR}/src/${header} text)
  string(REGEX REPLACE "#include \"([a-z_]+/[a-z_0-9]+\\.h)\"" "#include <vitrine/\\1>" text "${text}")
  string(REGEX REPLACE "^vitrine/" "" place ${header})
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/include/vitrine/${place} CONTENT "${text}" @ONLY)
endforeach()

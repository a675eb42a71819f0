# libvitrine_c.so.1: the interface of vitrine_c.h, with the whole engine inside. It exports the functions of the header
# and nothing else.
add_library(vitrine_c SHARED $<TARGET_OBJECTS:vitrine_capi>)
target_link_libraries(vitrine_c PRIVATE vitrine_vitrine Threads::Threads)
set_target_properties(vitrine_c PROPERTIES VERSION 1.0.0 SOVERSION 1 LINKER_LANGUAGE CXX
  LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/vitrine_c.map)
target_link_options(vitrine_c PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/vitrine_c.map -Wl,--gc-sections)
target_include_directories(vitrine_c INTERFACE ${PROJECT_SOURCE_DIR}/src/capi)

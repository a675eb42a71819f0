// The style of the page, whose colors are those of base/theme.h: one hue for each sign; nothing else but links is
// colored.
//
// Text that may be on a shaded cell (rules that begin with `td`) is ink or note, which have a contrast of 4.5 on every
// shade (WCAG 2.2, 1.4.3); all other text is on paper. tests/example/contrast_test.cpp computes them all.
#pragma once

#include <string_view>

namespace vitrine {

constexpr std::string_view kExampleStyle = R"css(
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; }
body {
  margin: 0 auto; padding: 0 1rem 4rem; max-width: 80rem; color: var(--ink); background: var(--paper);
  font: 16px/1.55 system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
a { color: var(--link); text-decoration: none; }
a:hover, a:focus-visible { text-decoration: underline; }
code, table, .cell, .shape, .file, nav li { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 2rem 0 1rem; font-weight: 650; }
h2 {
  font-size: 1.3rem; font-weight: 650; margin: 3.5rem 0 1rem; padding-bottom: .4rem;
  border-bottom: 2px solid var(--line);
}
h3 { font-size: .95rem; font-weight: 600; margin: 0; overflow-wrap: anywhere; }
header p { max-width: 46rem; margin: .6rem 0; color: var(--soft); }
header p.result { color: var(--ink); }
section { margin: 1.9rem 0 0; }
section:target h3 { color: var(--link); }
.shape, .file { color: var(--soft); font-weight: 400; font-size: .8rem; }
.meaning, .note { color: var(--soft); margin: .1rem 0 .3rem; font-size: .92rem; }
.note { font-size: .82rem; }
.formula { margin: .3rem 0 .5rem; overflow-x: auto; }
.formula .file { margin-left: 1.6rem; white-space: nowrap; }
math { font-size: 1.06rem; }
.wide { overflow-x: auto; display: flex; flex-wrap: wrap; gap: .4rem 2rem; padding-bottom: .2rem; }
table { border-collapse: collapse; font-size: .8rem; font-variant-numeric: tabular-nums; line-height: 1.4; }
td, th { padding: .18rem .55rem; text-align: right; white-space: nowrap; }
thead th { color: var(--soft); font-weight: 400; }
tbody th { color: var(--soft); font-weight: 400; text-align: left; padding-left: 0; }
thead td { color: var(--soft); text-align: left; padding-left: 0; }
td small { display: block; color: var(--note); font-size: .72rem; }
td.origin { color: var(--note); text-align: left; padding-left: 1.2rem; }
.cell { margin: .45rem 0 0; font-size: .8rem; color: var(--soft); overflow-wrap: anywhere; max-width: 60rem; }
.cell b { color: var(--ink); font-weight: 600; }
.sentence { display: flex; flex-wrap: wrap; gap: .4rem; align-items: center; }
.sentence span { border: 1px solid var(--line); border-radius: .4rem; padding: .15rem .6rem; color: var(--ink); }
.sentence span.target { border-color: var(--link); color: var(--link); }
.sentence small { color: var(--soft); margin-left: .4rem; font-size: .72rem; }
.sentence i { font-style: normal; margin: 0 .2rem; }
nav { padding-top: 1.2rem; font-size: .9rem; }
nav summary { cursor: pointer; font-weight: 600; padding: .2rem 0; }
nav ul { list-style: none; margin: 0 0 .6rem; padding: 0 0 0 .2rem; }
nav li { font-size: .76rem; line-height: 1.6; overflow-wrap: anywhere; }
@media (min-width: 1100px) {
  body { display: grid; grid-template-columns: 17rem minmax(0, 1fr); gap: 2.5rem; }
  nav { position: sticky; top: 0; max-height: 100vh; overflow-y: auto; padding: 2rem .5rem 2rem 0; scrollbar-width: thin; }
}
@media print { nav { display: none; } body { display: block; } }
)css";

}  // namespace vitrine

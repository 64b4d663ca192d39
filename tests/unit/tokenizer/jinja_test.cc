// Facts about the template language: each line renders as Python's jinja2 3.1.6 renders it, set up
// as transformers does it.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/unit/tokenizer/chat_support.h"
#include "tests/unit/tokenizer/oracle.h"
#include "text/utf8.h"

namespace remontoir {
namespace {

struct Case {
  std::string_view source;
  std::string_view rendered;
};

constexpr Case kCases[] = {
    {"{{ 1 + 2 * 3 ** 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** -1 }} {{ 1 + 1.5 }} {{ "
     "true + 1 }}",
     "19 -4 2 3.5 0.5 2.5 2"},
    {"{{ 1e16 }} {{ 1e15 }} {{ 0.1 }} {{ 1e-5 }} {{ 0.0001 }} {{ 100.0 }} {{ 1.5e300 }} {{ 3.0 // "
     "2 }}",
     "1e+16 1000000000000000.0 0.1 1e-05 0.0001 100.0 1.5e+300 1.0"},
    {"{{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 1 == 1.0 }} {{ 1 == true }} {{ 'a' == 1 }} {{ none "
     "== none }} {{ (1,) == [1] }}",
     "True True True True False True False"},
    {"{{ 'b' in 'abc' }} {{ 2 not in [1, 3] }} {{ 'k' in {'k': 0} }} {{ 1 < 2 < 3 }} {{ 3 > 2 > 2 "
     "}}",
     "True True True True False"},
    {"{{ not 0 and 'x' or 'y' }} {{ '' or none }} {{ [] and 1 }} {{ 1 if [] else 2 }} {{ 'z' if "
     "false }}",
     "x None [] 2 "},
    {"{{ [1, 'a', none, true, 1.5, (1, 2), (1,), {'k': [1]}] }} {{ {'a': 'it\\'s', 2: \"q\\\"s'\"} "
     "}}",
     "[1, 'a', None, True, 1.5, (1, 2), (1,), {'k': [1]}] {'a': \"it's\", 2: 'q\"s\\''}"},
    {"{{ 'tab\\there\\n' }}|{{ ['tab\\there\\n\\x7f\\xa0\\u200d'] }} {{ 'a\\\\b' }} {{ "
     "\"\\u00e9\\x41\" }}",
     "tab\there\n|['tab\\there\\n\\x7f\\xa0\\u200d'] a\\b \u00E9A"},
    {"{{ 'hello'[1] }} {{ 'hello'[-2:] }} {{ 'hello'[::2] }} {{ 'hello'[::-1] }} {{ 'hello'[3:1] "
     "}} {{ [1,2,3,4][1:-1] }} {{ [1,2,3,4][::-2] }} {{ 'h\\u00e9llo'[1:3] }}",
     "e lo hlo olleh  [2, 3] [4, 2] \u00E9l"},
    {"{{ 'abc'[10] }}|{{ [1][5] }}|{{ {'a': 1}['b'] }}|{{ {'a': 1}.b }}|{{ none.x }}|{{ {1: "
     "'one'}[1] }}",
     "|||||one"},
    {"{{ 'Hello World'.split() }} {{ ' a  b c '.split(' ') }} {{ 'a,b,c'.split(',', 1) }} {{ "
     "'a,b,c'.rsplit(',', 1) }} {{ ' a b c '.split(none, 1) }}",
     "['Hello', 'World'] ['', 'a', '', 'b', 'c', ''] ['a', 'b,c'] ['a,b', 'c'] ['a', 'b c ']"},
    {"{{ 'xxabcxx'.strip('x') }} {{ '  a '.lstrip() }}| {{ 'a\\r\\nb\\nc'.splitlines() }} {{ "
     "'a-b-c'.partition('-') }} {{ 'a-b-c'.rpartition('-') }} {{ 'abc'.partition('-') }}",
     "abc a | ['a', 'b', 'c'] ('a', '-', 'b-c') ('a-b', '-', 'c') ('abc', '', '')"},
    {"{{ 'they\\'re bill\\'s'.title() }} {{ \"they're bill's (ok)-x\" | title }} {{ "
     "'hELLO'.capitalize() }} {{ 'hELLO' | capitalize }} {{ 'aBc'.swapcase() }} {{ "
     "'stra\\u00dfe'.upper() }}",
     "They'Re Bill'S They're Bill's (Ok)-X Hello Hello AbC STRASSE"},
    {"{{ 'abcabc'.find('c') }} {{ 'abcabc'.rfind('c') }} {{ 'abc'.find('z') }} {{ "
     "'abcabc'.count('bc') }} {{ 'aaa'.replace('a', 'b', 2) }} {{ 'ab'.replace('', '-') }}",
     "2 5 -1 2 bba -a-b-"},
    {"{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'bc')) }} {{ 'abc'.removeprefix('a') }} "
     "{{ 'abc'.removesuffix('bc') }} {{ '-'.join(['a', 'b']) }}",
     "True True bc a a-b"},
    {"{{ '7'.zfill(3) }} {{ '-7'.zfill(4) }} {{ 'a'.ljust(3) }}|{{ 'a'.rjust(3) }}|{{ "
     "'a'.center(4) }}|{{ 'ab'.center(5) }}| {{ '12'.isdigit() }} {{ 'a1'.isalnum() }} {{ "
     "''.isalpha() }} {{ 'A1'.isupper() }} {{ ' \\t'.isspace() }}",
     "007 -007 a  |  a| a  |  ab | True True False True True"},
    {"{{ '{} and {}'.format('a', 1) }} {{ '{1} {0} {name} {{}}'.format('a', 'b', name='c') }} {{ "
     "'%s=%d %05.1f %x %-4s| %%' % ('a', 5, 2.25, 255, 'z') }} {{ '%s' % 'x' }} {{ '%r' % 'x' }}",
     "a and 1 b a c {} a=5 002.2 ff z   | % x 'x'"},
    {"{{ {'b': 1, 'a': 2}.items() | list }} {{ {'b': 1}.keys() | list }} {{ {'b': 1}.values() | "
     "list }} {{ {'b': 1}.get('x', 'd') }} {{ {'b': 1}.get('x') }}",
     "[('b', 1), ('a', 2)] ['b'] [1] d None"},
    {"{{ [3, 1, 2] | sort }} {{ ['b', 'A', 'c'] | sort }} {{ ['b', 'A', 'c'] | "
     "sort(case_sensitive=true) }} {{ [1, 2] | sort(reverse=true) }} {{ [{'n': 2}, {'n': 1}] | "
     "sort(attribute='n') }}",
     "[1, 2, 3] ['A', 'b', 'c'] ['A', 'b', 'c'] [2, 1] [{'n': 1}, {'n': 2}]"},
    {"{{ {'b': 1, 'A': 2} | dictsort }} {{ {'b': 1, 'a': 2} | dictsort(by='value') }} {{ {'b': 1, "
     "'a': 2} | dictsort(reverse=true) }}",
     "[('A', 2), ('b', 1)] [('b', 1), ('a', 2)] [('b', 1), ('a', 2)]"},
    {"{{ [1, 2, 3] | sum }} {{ [{'n': 2}, {'n': 1}] | sum(attribute='n') }} {{ [1, 5, 2] | max }} "
     "{{ [4, 1] | min }} {{ ['a', 'A', 'b'] | unique | list }} {{ [1, 2, 3] | first }} {{ 'abc' | "
     "last }} {{ [] | first }}|",
     "6 3 5 1 ['a', 'b'] 1 c |"},
    {"{{ [1, 2, 3, 4] | select('odd') | list }} {{ [1, 2, 3, 4] | reject('divisibleby', 2) | list "
     "}} {{ [0, 1, ''] | select | list }} {{ ['a', 'b'] | map('upper') | join(',') }} {{ [{'a': "
     "{'b': 1}}] | map(attribute='a.b') | list }} {{ [{'a': 1}, {}] | map(attribute='a', "
     "default='d') | list }}",
     "[1, 3] [1, 3] [1] A,B [1] [1, 'd']"},
    {"{{ [{'r': 'u', 'n': 1}, {'r': 'a', 'n': 2}] | selectattr('r', 'equalto', 'u') | "
     "map(attribute='n') | list }} {{ [{'r': 1}, {'r': 0}] | rejectattr('r') | list }} {{ none | "
     "selectattr('x') | list }} {{ none | map('upper') | list }}",
     "[1] [{'r': 0}] [] []"},
    {"{{ [1, 2, 3, 4, 5] | batch(2) | list }} {% for g, items in [{'t': 1, 'v': 'a'}, {'t': 2, "
     "'v': 'b'}, {'t': 1, 'v': 'c'}] | groupby('t') %}{{ g }}:{{ items | map(attribute='v') | join "
     "}} {% endfor %}",
     "[[1, 2], [3, 4], [5]] 1:ac 2:b "},
    {"{{ 'a\\nb\\n\\nc' | indent }}|{{ 'a\\nb' | indent(2, true) }}|{{ 'a\\n\\nb' | indent('>', "
     "blank=true) }}|{{ 'a\\n' | indent }}|",
     "a\n    b\n\n    c|  a\n  b|a\n>\n>b|a\n|"},
    {"{{ 'foo bar baz qux' | truncate(9) }} {{ 'foo bar baz qux' | truncate(9, true) }} {{ 'foo "
     "bar' | truncate(5, leeway=5) }} {{ 'foo bar baz qux' | truncate(11, false, '!', 0) }}",
     "foo... foo ba... foo bar foo bar!"},
    {"{{ '<a href=\"x\">\\'&' | e }} {{ 'one two  three' | wordcount }} {{ 'x' | center(5) }}| {{ "
     "3.7 | int }} {{ '3.7' | int }} {{ 'x' | int(5) }} {{ '0x1f' | int(base=16) }} {{ '1f' | "
     "int(0, 16) }} {{ '1.25' | float }} {{ 'x' | float }} {{ -3 | abs }} {{ (-3) | abs }}",
     "&lt;a href=&#34;x&#34;&gt;&#39;&amp; 3   x  | 3 3 5 31 31 1.25 0.0 3 3"},
    {"{{ 2.5 | round }} {{ 3.5 | round }} {{ 2.675 | round(2) }} {{ 2.1 | round(method='ceil') }} "
     "{{ 2.19 | round(1, 'floor') }} {{ 5 | round }} {{ 42.55 | round(1) }}",
     "2.0 4.0 2.67 3.0 2.1 5 42.5"},
    {"{{ {'a': [1, 2.0, none, true, 'x\"\\n\\u00e9\\u2028\\u007f']} | tojson }} {{ {'b': 1, 'a': "
     "[]} | tojson(indent=2) }} {{ [1, {'x': {}}] | tojson(indent=1) }} {{ {1: 2, none: 3} | "
     "tojson }} {{ '\\u00e9\\U0001F600' | tojson(ensure_ascii=true) }} {{ {'b': 1, 'a': 2} | "
     "tojson(sort_keys=true) }} {{ [1, 2] | tojson(separators=(',', ':')) }} {{ 1e100 | tojson }}",
     "{\"a\": [1, 2.0, null, true, \"x\\\"\\n\u00E9\u2028\177\"]} {\n  \"b\": 1,\n  \"a\": []\n} "
     "[\n 1,\n {\n  \"x\": {}\n }\n] {\"1\": 2, \"null\": 3} \"\\u00e9\\ud83d\\ude00\" {\"a\": 2, "
     "\"b\": 1} [1,2] 1e+100"},
    {"{{ x is defined }} {{ x is undefined }} {{ none is none }} {{ 1 is number }} {{ 1.5 is float "
     "}} {{ true is boolean }} {{ true is integer }} {{ 'a' is string }} {{ {} is mapping }} {{ [] "
     "is sequence }} {{ 'a' is iterable }} {{ 1 is iterable }} {{ 4 is even }} {{ 3 is odd }} {{ 9 "
     "is divisibleby 3 }} {{ 'a' is in ['a'] }} {{ 'A' is upper }} {{ 2 is gt 1 }} {{ 2 is le(2) "
     "}} {{ 1 is not string }} {{ range is callable }} {{ true is true }} {{ 1 is true }} {{ 'abs' "
     "is filter }}",
     "False True True True True True False True True True True False True True True True True True "
     "True True True True False True"},
    {"{{ x | default('d') }} {{ '' | default('d') }}| {{ '' | default('d', true) }} {{ x | default "
     "}}| {{ x | length }} {{ x | list }} {{ x ~ 'a' }} {{ x | upper }}| {{ x | items | list }} {{ "
     "x == y }} {{ 1 in x }}",
     "d | d | 0 [] a | [] True False"},
    {"{% for i in range(3) %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 "
     "}}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.cycle('a', 'b') }}{{ loop.previtem "
     "}}{{ loop.nextitem }};{% endfor %}",
     "1032TrueFalse3a1;2121FalseFalse3b02;3210FalseTrue3a1;"},
    {"{% for i in [1, 1, 2] %}{{ loop.changed(i) }} {% endfor %}{% for i in [] %}x{% else "
     "%}empty{% endfor %}{% for i in range(5) if i is odd %}{{ i }}/{{ loop.length }} {% endfor %}",
     "True False True empty1/2 3/2 "},
    {"{% for a, b in [(1, 2), (3, 4)] %}{{ a + b }} {% endfor %}{% for k, v in {'x': 1}.items() "
     "%}{{ k }}{{ v }}{% endfor %}{% for k in {'x': 1} %}{{ k }}{% endfor %}{% for c in 'ab' %}{{ "
     "c }}.{% endfor %}",
     "3 7 x1xa.b."},
    {"{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% "
     "endif %}{{ i }}{% endfor %}",
     "0134"},
    {"{% for x in [{'v': 1, 'c': [{'v': 2, 'c': []}]}] recursive %}{{ x.v }}@{{ loop.depth }}{% if "
     "x.c %}({{ loop(x.c) }}){% endif %}{% endfor %}",
     "1@1(2@2)"},
    {"{% set x = 1 %}{% for i in range(2) %}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}{% if "
     "true %}{% set x = 9 %}{% endif %}{{ x }}",
     "2219"},
    {"{% set ns = namespace(a=1, b='x') %}{% for i in range(3) %}{% set ns.a = ns.a + i %}{% "
     "endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}|",
     "4x|"},
    {"{% set a, b = 1, 2 %}{{ a }}{{ b }} {% set t = 1, %}{{ t }} {% set c %}x{{ a }}{% endset "
     "%}{{ c }} {% set d | upper | trim %} abc {% endset %}{{ d }}|",
     "12 (1,) x1 ABC|"},
    {"{% macro f(a, b='B', c=a) %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ f(1) }}{{ f(1, c=3) }}{{ "
     "f(1, 2) }}{{ f() }}",
     "[1B1][1B3][121][B]"},
    {"{% macro m() %}<{{ caller('x') }}>{% endmacro %}{% call(v) m() %}{{ v }}!{% endcall %} {% "
     "filter upper %}abc{{ 1 }}{% endfilter %} {% with a = 1, b = 2 %}{{ a + b }}{% endwith %}",
     "<x!> ABC1 3"},
    {"{% if x %}a{% elif 0 %}b{% elif 1 %}c{% else %}d{% endif %} {% if x is defined and x.y %}1{% "
     "else %}2{% endif %} {% if not x %}3{% endif %}",
     "c 2 3"},
    {"a {# comment #} b{#- c -#} d {%- if true -%} e {%- endif %} f", "a  bde f"},
    {"{% raw %}{{ x }} {% if %}{% endraw %}!{%- raw -%}  {{ y }} {%- endraw -%}",
     "{{ x }} {% if %}!{{ y }}"},
    {"{{ \"a\" \"b\" 'c' }} {{ ('x') }} {{ (1, 2)[0] }} {{ [1, 2,] }} {{ {'a': 1,}.a }} {{ 1_000 "
     "}} {{ 'a' if 1 else 'b' if 0 else 'c' }} {{ [] is sequence and true }} {{ -1 | string | "
     "length }} {{ 'a' ~ (1 + 2) }} {{ 2 * 3 ~ 'x' }}",
     "abc x 1 [1, 2] 1 1000 a True 2 a3 6x"},
    {"{{ dict(a=1, b=2) }} {{ range(1, 10, 3) | list }} {{ range(5, 0, -2) | list }} {{ [1] + [2] "
     "}} {{ 'ab' * 2 }} {{ [0] * 3 }} {{ (1,) + (2,) }} {{ 'abc' | reverse }} {{ [1, 2] | reverse "
     "| list }} {{ 'abc' | list }} {{ {'a': 1} | list }} {{ {'a': 1} | length }}",
     "{'a': 1, 'b': 2} [1, 4, 7] [5, 3, 1] [1, 2] abab [0, 0, 0] (1, 2) cba [2, 1] ['a', 'b', 'c'] "
     "['a'] 1"},
    {"{{ [1, 2] | join(', ') }} {{ [{'n': 'a'}, {'n': 'b'}] | join('-', attribute='n') }} {{ ['a', "
     "none, 1] | join }} {{ '%s' | format('x') }} {{ 'x' | string }} {{ none | string }} {{ {'a': "
     "1} | attr('b') }}| {{ ' x ' | trim }}| {{ 'xax' | trim('x') }} {{ 'aXb' | lower }} {{ 'aXb' "
     "| replace('X', '-') }}",
     "1, 2 a-b aNone1 x x None | x| a axb a-b"},
    {"  {% if true %}\n  a\n  {% endif %}\nb\n", "  a\nb"},
    {"{% if true -%}\n\n  a\n{%- endif %}\n\nb", "a\nb"},
    {"x\n  {{- 1 }}\n  {{ 2 -}}\n  y", "x1\n  2y"},
    {"  {%+ if true %}a{% endif +%}\nb", "  a\nb"},
    {"a\n\t{# c #}\nb\n\n", "a\nb\n"},
    {"{% set x = 1 %}\n{% set y = 2 %}\n\n{{ x }}\r\n{{ y }}\n", "\n1\n2"},
    {"{% for i in [1, 2] %}\n  {{ i }}\n{% endfor %}\nend", "  1\n  2\nend"},
    {" {% if true %} {% if true %} x {% endif %} {% endif %} ", "  x   "},
    {"a {%- raw %}\n b {% endraw %}\n c", "a\n b  c"},
    {"{{ 'a' }}\n{{ 'b' }}\n", "a\nb"}};

TEST(Jinja, RendersAsPython) {
  for (const Case& c : kCases) {
    const Result<ChatTemplate> compiled = ChatTemplate::Compile(c.source);
    ASSERT_TRUE(compiled.ok()) << c.source << ": " << compiled.status().message();
    const auto spans = compiled->Render({});
    ASSERT_TRUE(spans.ok()) << c.source << ": " << spans.status().message();
    EXPECT_EQ(TextOf(*spans), c.rendered) << c.source;
  }
}

// Templates come from files that anyone may have written.
TEST(Jinja, SpoiltTemplatesGiveTextOrAnError) {
  std::mt19937 random(3105);
  const auto rows = ReadOracleLines("chat/features.jsonl");
  const JinjaLimits limits{.steps_max = 20'000, .text_bytes_max = 1 << 20, .depth_max = 60};
  for (int round = 0; round < 1500; ++round) {
    std::string source(kCases[random() % std::size(kCases)].source);
    const std::string_view other = kCases[random() % std::size(kCases)].source;
    for (unsigned edits = 1 + random() % 4; edits > 0; --edits) {
      const size_t at = random() % (source.size() + 1);
      switch (random() % 3) {
        case 0: source.erase(at, random() % 6); break;
        case 1: source.insert(at, other.substr(random() % other.size(), random() % 12)); break;
        default: source.insert(at, 1, "{}%#'\"|()[].:-~*"[random() % 17]); break;
      }
    }
    const Result<ChatTemplate> compiled = ChatTemplate::Compile(source);
    if (!compiled.ok()) continue;
    const auto spans = compiled->Render(InputsOf(rows[random() % rows.size()]), limits);
    if (spans.ok()) {
      EXPECT_TRUE(IsValidUtf8(TextOf(*spans))) << source;
    }
  }
}

}  // namespace
}  // namespace remontoir

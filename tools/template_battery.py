"""Small template cases, construct by construct: expressions one a line, and statements as text blocks.

Used by make_template_goldens.py. Every case renders with CONTEXT; a case that jinja2 refuses becomes an error case."""

CONTEXT = {
    "s": "Hello, World", "u": "naïve Ünïcödé — 日本語 🎉 ß ﬁ", "sp": "  \t padded \n", "lines": "one\ntwo\r\n\nthree\n", "empty": "",
    "n": 7, "neg": -3, "big": 9007199254740993, "f": 2.5, "z": 0, "t": True, "no": False, "nil": None,
    "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "mixed": [1, "two", 3.0, None, True, [1, 2], {"k": "v"}], "none_list": [],
    "d": {"b": 1, "a": 2, "C": 3}, "nested": {"x": {"y": [10, {"z": "deep"}]}, "items": "shadow", "1": "one"},
    "users": [{"name": "Bob", "age": 30, "tags": ["x", "y"], "on": True}, {"name": "alice", "age": 25, "tags": [], "on": False},
              {"name": "Carol", "age": 30, "tags": ["z"], "on": True}, {"name": "bob", "age": 4}],
    "html": "<a href=\"x\">T&C's</a>", "quote": "it's", "dquote": "say \"hi\" it's", "ctl": "a\x00b\x1f\x7f\x85\u2028\ud7ff\ue000\\n",
    "floats": [0.1, 1e16, 1e-5, 123456789.125, 1e22, 1.0, -0.0, 100.0, 1.5e300, 5e-324, 0.0001, 1e15],
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}],
    "tok": "a<think>b</think>c<think>d</think>e",
}

EXPRESSIONS = r"""
1
1 + 2 * 3 - 4
(1 + 2) * 3
7 / 2
7 // 2
-7 // 2
7 % 3
-7 % 3
7 % -3
7.5 // 2
-7.5 // 2
7.5 % 2
-7.5 % 2
2 ** 10
2 ** -1
2 ** 0.5
-2 ** 2
2 ** 3 ** 2
1 / 0
1 % 0
0.1 + 0.2
1e3
1.5e-7
1_000_000
0x1f
0b101
0o17
10 / 5
n + t
t + t
-t
+n
-neg
- f
n * 1.5
big + 1
9223372036854775807
s + u
s + 1
1 + s
s * 2
2 * s
s * 0
s * -1
l * 2
l + [4]
(1, 2) + (3,)
l + (4,)
s ~ n ~ f ~ nil ~ t ~ l
1 ~ 2
n == 7
n == 7.0
t == 1
s == 'Hello, World'
l == [3, 1, 2]
(1, 2) == [1, 2]
d == {'a': 2, 'b': 1, 'C': 3}
nil == none
nosuch == nosuch2
nosuch == none
nosuch != 1
1 < 2 < 3
1 < 3 < 2
3 > 2 >= 2 != 1
'a' < 'b'
'Z' < 'a'
'a' < 1
[1, 2] < [1, 3]
[1] < [1, 0]
none < 1
nosuch < 1
'é' > 'z'
not t
not not s
not nosuch
t and s
no and s
no or s
empty or 'fallback'
nil or 0 or '' or [] or 'x'
1 and 2 and 3
not no and no
not (no and no)
1 if t else 2
1 if no else 2
1 if no
(1 if no) is undefined
'a' if no else 'b' if no else 'c'
1 + 2 if t else 5
'a' in s
'Hello' in s
'' in empty
'x' not in s
3 in l
9 in l
'a' in d
'z' in d
nil in mixed
1.0 in l
1 in s
'a' in nil
'a' in nosuch
not 'a' in s
'a' in ['b'] or 'a' in ['a']
s[0]
s[-1]
s[99]
u[2]
u[-1]
l[0]
l[-1]
l[5]
l['x']
l[true]
l[1.0]
d['a']
d['zz']
d.a
d.zz
d.zz.q
nested.x.y[1].z
nested['x']['y'][0]
nested.items
nested['items']
nested.1
nested['1']
mixed[5][1]
mixed.5
s.foo
s.foo.bar
nil.foo
n.foo
nosuch
nosuch.foo
nosuch['foo']
nosuch[0]
nosuch()
s()
d[[1]]
s[1:4]
s[:3]
s[3:]
s[-3:]
s[:-3]
s[::2]
s[::-1]
s[5:1:-1]
s[10:2:-3]
s[100:]
s[:100]
s[-100:2]
s[2:1]
u[::-1]
u[6:12]
l[1:]
l[::-1]
l[:-1]
l[::2]
l[5:]
mixed[1:3]
(1, 2, 3)[1:]
range(10)[2:8:2]
range(10)[::-1] | list
range(5)[1]
range(5)[-1]
range(5)[9]
s[nil:nil]
s['a':]
s[::0]
nil[1:]
nosuch[1:]
d[1:]
[]
[1, 2, 3,]
()
(1,)
(1, 2)
1, 2
{}
{'a': 1, 'b': [1, 2], 3: none}
{'a': 1, 'a': 2}
{[1]: 2}
['a', "b", 'it\'s', "say \"x\""]
mixed
nested
users[0]
floats
html
[html]
[ctl]
[u]
quote
[quote, dquote]
t
no
nil
f
-0.0
1e100
1.0
[nosuch]
[true, none]
(none,)
'a' 'b' "c"
'\n\t\\\'\"\x41\u00e9\U0001F600\101\q'
'line\
cont'
"{{ not a tag }}"
'%}'
s.upper()
s.lower()
s.title()
"they're bill's".title()
u.upper()
u.lower()
u.title()
u.capitalize()
'hELLO wORLD'.capitalize()
'hELLO'.swapcase()
'ΑΣ ΣΑΣ'.lower()
'ǆ ﬁ ß İ ŉ'.upper()
'ǆ ﬁ ß'.title()
'İ'.lower()
sp.strip()
sp.lstrip()
sp.rstrip()
'xxhixx'.strip('x')
'abchicba'.strip('abc')
'éhié'.strip('é')
'xxhixx'.lstrip('x')
'xxhixx'.rstrip('x')
sp.strip(none)
s.strip(1)
s.split()
s.split(', ')
s.split('l')
s.split('l', 1)
s.split('z')
s.split('')
' a  b c '.split()
' a  b c '.split(' ')
' a  b c '.split(none, 1)
' a  b c '.split(maxsplit=1)
'a,b,c'.split(',', maxsplit=1)
'a,b,c'.split(sep=',')
'a,b,c'.rsplit(',', 1)
'a,b,c'.rsplit(',')
' a  b c '.rsplit(none, 1)
' a  b c '.rsplit()
tok.split('</think>')
tok.split('</think>')[-1]
tok.split('</think>')[0].split('<think>')[-1]
tok.rsplit('</think>', 1)
''.split()
''.split(',')
lines.splitlines()
lines.splitlines(true)
'a\x0bb\x1cc\u2028d'.splitlines()
'a-b-c'.partition('-')
'a-b-c'.rpartition('-')
'abc'.partition('-')
'abc'.rpartition('-')
', '.join(ls)
', '.join(l)
''.join([])
'-'.join('abc')
'-'.join(d)
s.replace('l', 'L')
s.replace('l', 'L', 1)
s.replace('', '-')
'ab'.replace('', '-', 2)
s.replace('zz', 'y')
s.find('o')
s.find('o', 5)
s.find('zz')
s.rfind('o')
u.find('日')
s.index('W')
s.index('zz')
s.rindex('o')
s.count('l')
s.count('')
s.count('l', 4)
s.startswith('Hello')
s.startswith('ello', 1)
s.startswith(('x', 'He'))
s.endswith('ld')
s.endswith(('x', 'ld'))
s.endswith('Hello', 0, 5)
s.startswith('')
s.startswith(['H'])
s.startswith(1)
'123'.isdigit()
'12a'.isdigit()
''.isdigit()
'²'.isdigit()
'٣'.isdecimal()
'½'.isnumeric()
'abc'.isalpha()
'abcé'.isalpha()
'ab1'.isalnum()
'a b'.isalnum()
' \t'.isspace()
''.isspace()
'ABC1'.isupper()
'Abc'.isupper()
'abc1'.islower()
'123'.islower()
'abc'.isascii()
'é'.isascii()
'ab'.center(7)
'ab'.center(6, '*')
'abc'.center(6, '*')
'abc'.center(8, '*')
'ab'.ljust(5) ~ '|'
'ab'.rjust(5)
'42'.zfill(5)
'-42'.zfill(5)
'prefix-x'.removeprefix('prefix-')
'x.txt'.removesuffix('.txt')
'x.txt'.removesuffix('zzz')
'{} and {}'.format(1, 'two')
'{0} {1} {0}'.format('a', 'b')
'{x} {y!r}'.format(x=1, y='q')
'{{}} {}'.format(1)
'{:>5}|{:<5}|{:^5}'.format('a', 'b', 'c')
'{:05d} {:+d} {:x} {:,}'.format(42, 7, 255, 1234567)
'{:.2f} {:8.3f} {:e} {:.0%}'.format(3.14159, 2.5, 12345.678, 0.25)
'{a[0]} {a[1]}'.format(a=l)
'{d[a]}'.format(d=d)
'{'.format()
'{}'.format()
'{:*^10}'.format('hi')
'%s is %d' % ('x', 3)
'%s' % 'x'
'%s' % l
'%s %s' % ('a',)
'%s' % ('a', 'b')
'%5d|%-5d|%05d' % (42, 42, 42)
'%.2f %e %g' % (3.14159, 12345.678, 0.0001)
'%x %X %o %#x' % (255, 255, 8, 255)
'%r' % 'x'
'%%' % ()
'%(a)s-%(b)s' % {'a': 1, 'b': 2}
'%c' % 'x'
'%10s|%-10s|' % ('a', 'b')
'%.3s' % 'abcdef'
'%d' % 'x'
'%d' % 3.9
'%s' % nosuch
'abc' % nosuch
'abc' % 1
'abc' % l
'%s' % none
'%+d % d' % (5, 5)
d.keys()
d.values()
d.items()
d.keys() | list
d.items() | list
d.get('a')
d.get('zz')
d.get('zz', 'dflt')
d.get('zz', default='x')
d.copy()
d | length
d.update({'x': 1})
d.pop('a')
d.clear()
d.setdefault('q', 1)
d.update
d.update is defined
l.append(4)
l.pop()
l.sort()
l.append
l.index(1)
l.index(99)
l.count(1)
l.copy()
(1, 2, 1).count(1)
(1, 2, 1).index(2)
'a' in d.keys()
1 in d.values()
('a', 2) in d.items()
d.items() | length
s.__class__
s.__class__.__mro__
d.__init__
s | upper
s | lower
s | title
"they're bill's-foo (bar) [baz]" | title
s | capitalize
sp | trim
'xxhixx' | trim('x')
nosuch | trim
nil | trim
n | trim
s | length
u | length
l | length
d | count
n | length
nil | length
nosuch | length
s | replace('l', 'L')
s | replace('l', 'L', 2)
n | replace('7', 'x')
nil | replace('N', 'x')
s | first
s | last
l | first
l | last
none_list | first
none_list | last
(none_list | first) is undefined
d | first
d | last
range(3) | last
l | map('string') | first
nosuch | first
l | join
l | join(', ')
ls | join('-') | upper
users | map(attribute='name') | join(', ')
users | join(', ', attribute='name')
d | join('/')
s | join('.')
mixed | join('|')
nosuch | join
n | join
l | sort
ls | sort
ls | sort(case_sensitive=true)
l | sort(reverse=true)
ls | sort(true)
users | sort(attribute='age') | map(attribute='name') | list
users | sort(attribute='age', reverse=true) | map(attribute='name') | list
users | sort(attribute='age,name') | map(attribute='name') | list
mixed | sort
[{}, {}] | sort
[nosuch, nosuch] | sort | length
[1, 'a'] | sort
nosuch | sort
d | sort
s | sort
l | reverse
l | reverse | list
s | reverse
u | reverse
(1, 2) | reverse | list
d | reverse | list
ls | unique | list
['a', 'A', 'b'] | unique(true) | list
[1, 1.0, true, 2] | unique | list
users | unique(attribute='age') | map(attribute='name') | list
l | max
l | min
ls | max
ls | min
none_list | max
users | max(attribute='age')
l | sum
floats[:2] | sum
users | sum(attribute='age')
l | sum(start=10)
ls | sum
[[1], [2]] | sum(start=[])
users | map(attribute='tags.0') | list
users | map(attribute='tags.0', default='none') | list
users | map(attribute='zz', default='q') | list
ls | map('upper') | list
l | map('string') | join('+')
['a,b', 'c'] | map('replace', ',', ';') | list
users | map(attribute='name') | map('lower') | unique | list
nosuch | map('upper') | list
l | map('nosuchfilter') | list
l | select('odd') | list
l | select | list
l | reject('odd') | list
mixed | select('string') | list
l | select('gt', 1) | list
l | select('in', [1, 2]) | list
l | reject('equalto', 3) | list
users | selectattr('on') | map(attribute='name') | list
users | selectattr('on', 'defined') | map(attribute='name') | list
users | selectattr('age', 'equalto', 30) | map(attribute='name') | list
users | selectattr('age', '>', 25) | list | length
users | rejectattr('on') | map(attribute='name') | list
users | rejectattr('name', 'in', ['Bob']) | map(attribute='name') | list
users | selectattr('name', '==', 'Bob') | first
messages | selectattr('role', 'equalto', 'system') | map(attribute='content') | first
messages | rejectattr('role', 'equalto', 'system') | list
(users | selectattr('nosuch')) is iterable
'yes' if users | selectattr('nosuch') else 'no'
users | groupby('age') | map('first') | list
users | groupby('name') | map(attribute='grouper') | list
users | groupby('zz', default='D') | map('last') | map('length') | list
d | items | list
nosuch | items | list
l | items | list
d | dictsort
d | dictsort(true)
d | dictsort(by='value')
d | dictsort(reverse=true)
d | dictsort(false, 'value', true)
d | dictsort(by='zz')
nosuch | default('x')
nosuch | default
nosuch | d('x')
empty | default('x')
empty | default('x', true)
nil | default('x')
nil | default('x', boolean=true)
d.zz | default('q')
nosuch.zz | default('q')
'42' | int
'42.9' | int
'x' | int
'x' | int(5)
'x' | int(default=-1)
'ff' | int(base=16)
'0x1f' | int(0, 16)
' 7 ' | int
'1_000' | int
'1__0' | int
'-5' | int
'+5' | int
f | int
-2.7 | int
nil | int
t | int
l | int
nosuch | int
'1e3' | int
'inf' | int
'nan' | float
'3.5' | float
'x' | float
'x' | float(1.5)
n | float
'1e400' | float
' 2.5 ' | float
'0x10' | float
'1_0.5' | float
-5 | abs
neg | abs
-2.5 | abs
t | abs
s | abs
2.5 | round
3.5 | round
2.567 | round(2)
2.675 | round(2)
2.1 | round(method='ceil')
2.9 | round(method='floor')
2.567 | round(1, 'ceil')
1234 | round(-2)
1250 | round(-2)
1350 | round(-2)
n | round
n | round(method='ceil')
-2.5 | round
1e20 | round
s | round
s | list
l | list
d | list
nosuch | list
range(3) | list
nil | list
s | string
n | string
l | string
nil | string
nosuch | string
html | escape
html | e
html | safe
html | e | e
html | forceescape
(html | safe) + '<b>'
'<b>' + (html | e)
(html | e) ~ '<b>'
[html | safe]
'a<b' | safe | list
n | e
nosuch | e
(html | e) is escaped
html is escaped
'a\nb\n\nc' | indent
'a\nb\n\nc' | indent(2)
'a\nb' | indent(2, true)
'a\nb\n\nc' | indent(2, false, true)
'a\nb' | indent('> ')
'a\nb\n' | indent(2)
'a\r\nb' | indent(width=2, first=true)
n | indent
'%s-%s' | format('a', 'b')
'%(x)s' | format(x=1)
'ab' | center(6)
s | attr('upper')
d | attr('a')
d | tojson
nested | tojson
mixed | tojson
floats | tojson
u | tojson
u | tojson(ensure_ascii=true)
ctl | tojson
ctl | tojson(true)
html | tojson
d | tojson(indent=2)
nested | tojson(indent=4)
nested | tojson(indent=0)
nested | tojson(indent='\t')
mixed | tojson(indent=none)
d | tojson(sort_keys=true)
d | tojson(separators=(',', ':'))
nested | tojson(separators=(',', ':'), indent=2)
{1: 2, 1.5: 3, true: 4, none: 5} | tojson
{(1, 2): 3} | tojson
{} | tojson
[] | tojson(indent=2)
{'a': {}, 'b': []} | tojson(indent=2)
(1, 2) | tojson
nil | tojson
nosuch | tojson
[nosuch] | tojson
range(3) | tojson
s | tojson
n | tojson
t | tojson
'\U0001F600' | tojson(ensure_ascii=true)
users | tojson(indent=2, sort_keys=true)
users | tojson
n is defined
nosuch is defined
nosuch is not defined
nosuch is undefined
d.zz is defined
d.a is defined
nil is none
nil is not none
s is string
n is string
d is mapping
l is mapping
l is iterable
n is iterable
s is iterable
d is iterable
nosuch is iterable
l is sequence
s is sequence
d is sequence
n is sequence
range(3) is sequence
nosuch is sequence
d.items() is sequence
n is number
f is number
t is number
s is number
n is integer
t is integer
f is integer
f is float
n is float
t is boolean
n is boolean
t is true
t is false
1 is true
no is false
0 is false
n is odd
n is even
f is odd
s is odd
n is divisibleby 7
n is divisibleby(3)
n is eq 7
n is equalto 7
n is ne 7
n is gt 3
n is lt 3
n is ge 7
n is le 7
n is greaterthan 3
n is lessthan 3
n is sameas n
nil is sameas none
t is sameas true
'a' is in 'abc'
n is in l
n is not in l
s is lower
'abc' is lower
'ABC' is upper
range is callable
s.upper is callable
s is callable
nosuch is callable
'upper' is filter
'nosuch' is filter
not nosuch is defined
n is defined and n > 3
nosuch is defined and nosuch.x
not d.zz is defined and n
n is number is true
1 + 1 is number
-1 is number
(n is number) == true
n | string is string
s | length > 5
s | length + 1
-n | abs
(-n) | abs
- 5 | abs + 1
l | length * 2 - 1
'a' ~ l | length
'a' + l | length | string
not s | length
range(3)
range(1, 4) | list
range(10, 0, -3) | list
range(0) | list
range(0)
range(1, 4)
range(0, 10, 2)
range(3) == range(0, 3)
range(1, 2, 0)
range(200000) | length
range(3) | length
range('a')
range()
3 in range(5)
dict(a=1, b=2)
dict(d)
dict(d, z=9)
dict([('a', 1), ['b', 2]])
dict(l)
namespace(a=1).a
namespace({'q': 1}).q
namespace(a=1).b
namespace(a=1)
namespace(a=1)['a']
strftime_now('%Y-%m-%d')
strftime_now('%d %b %Y')
strftime_now('%B %d, %Y, %A, %H:%M:%S %p %j %y %-d %e')
strftime_now('100%% %Z%z|')
strftime_now('日本 %Y年')
strftime_now('%f')
raise_exception('boom')
1 if n > 5 else raise_exception('boom')
messages[0].role
messages[0]['content']
messages[-1].content
messages[1:] | length
messages[0]['role'] == 'system' and messages | length > 2
(messages | length) % 2 == 1
messages | map(attribute='role') | join(',')
loop is defined
loop
caller is defined
true and True and false == False
None is none
none is None
n in [1, 7] and s not in ['x']
1 in [1] == true
l is iterable and l is not string and l is not mapping
'' is string
(l, d)
[l, [l]]
[[], {}, ()]
{'a': {'b': {'c': [1, (2, 3)]}}}
u
ctl
'tab\there'
s.upper().lower().title()
s.split(', ')[1].upper()[::-1]
(s ~ '!')[0:5]
[1, 2, 3][1]
{'a': 5}.a
{'a': 5}['a']
'abc'[1]
(1 + 2) | string
[1, 2] is sequence and [1, 2] is not mapping
s == s.strip()
f == 2.5 and f != 2
1 == 1.0 == true
'1' == 1
t is boolean and not (n is boolean)
range(*[1, 4]) | list
dict(**{'a': 1})
'{} {}'.format(*['x', 'y'])
range(1, **{'stop': 3})
dict(a=1, a=2)
s.replace('l', new='L')
users[0].tags | join(' ') ~ '.'
users[3].on
users[3].on | default('unset')
1 < n <= 7
big * 1000000000
10 ** 30
(2 ** 62) - 1
2 ** 63
7.0 // 0
1e308 * 10
-1e308 * 10
3 % 2.5
1e16 + 1
0.1 * 3
100 * 1.1
1 / 3
2 / 3 * 3
1e21
12345678901234567890.0
123456789012345680.0
1e-7
0.00001234
""".strip("\n").split("\n")

# (name, template); the escapes of Python's raw strings apply. Rendered with CONTEXT.
STATEMENTS = [
    ("trim after block", "a\n{% if t %}\nb\n{% endif %}\nc\n"),
    ("lstrip before block", "a\n   {% if t %}\n  b\n   {% endif %}\n  c"),
    ("no lstrip with text before", "x  {% if t %}y{% endif %}  z"),
    ("lstrip off by plus", "a\n   {%+ if t %}b{% endif %}"),
    ("trim off by plus", "{% if t +%}\n\nb{% endif +%}\nc"),
    ("minus both sides", "a  \n\n {%- if t -%} \n\n b \n {%- endif -%} \n c"),
    ("variable keeps newline", "{{ n }}\n{{ n }}\n\n"),
    ("variable minus", "a \n {{- n -}} \n b"),
    ("variable plus", "a \n {{+ n }} \n b"),
    ("variable is not lstripped", "a\n   {{ n }}"),
    ("trailing newline", "abc\n"),
    ("two trailing newlines", "abc\n\n"),
    ("only newline", "\n"),
    ("empty", ""),
    ("carriage returns", "a\r\nb\rc\n{% if t %}\r\nd{% endif %}\r\n"),
    ("comment", "a{# comment {{ x }} {% if %} #}b"),
    ("comment lines", "a\n  {# one #}\n  {# two -#}\n\n b\n{#- three +#}\nc"),
    ("comment minus inside", "a {#- x -#} b{#-#}c{##}d"),
    ("unicode space around tags", "a\u00a0\u2003{%- if t -%}\u3000 b{% endif %}"),
    ("raw", "{% raw %}{{ n }} {% if %} {# #}{% endraw %}"),
    ("raw minus", "a {%- raw -%}  {{ x }}  {%- endraw -%} b"),
    ("raw lines", "  {% raw %}\n  x\n  {% endraw %}\n y"),
    ("braces in text", "{ } }} %} #} {a} {"),
    ("nested braces", "{{ {'a': {'b': 1}}['a']['b'] }}"),
    ("tag in string", "{{ '}}' }}{{ '%}' }}"),
    ("if elif else", "{% if no %}1{% elif z %}2{% elif n %}3{% else %}4{% endif %}"),
    ("if else", "{% if no %}1{% else %}2{% endif %}"),
    ("if undefined", "{% if nosuch %}1{% else %}2{% endif %}"),
    ("if colon", "{% if t: %}1{% endif %}"),
    ("nested if", "{% if t %}{% if no %}a{% else %}b{% endif %}{% endif %}"),
    ("for", "{% for x in l %}{{ x }},{% endfor %}"),
    ("for else empty", "{% for x in none_list %}{{ x }}{% else %}none{% endfor %}"),
    ("for else full", "{% for x in l %}{{ x }}{% else %}none{% endfor %}"),
    ("for else all filtered", "{% for x in l if x > 9 %}{{ x }}{% else %}none{% endfor %}"),
    ("for else break", "{% for x in l %}{% break %}{% else %}else{% endfor %}"),
    ("for else continue", "{% for x in l %}{% continue %}{% else %}else{% endfor %}"),
    ("for else late break", "{% for x in l %}{% if loop.last %}{% break %}{% endif %}{% else %}else{% endfor %}"),
    ("for string", "{% for c in u %}[{{ c }}]{% endfor %}"),
    ("for dict", "{% for k in d %}{{ k }}{% endfor %}"),
    ("for items", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}"),
    ("for items filter", "{% for k, v in d | dictsort %}{{ k }}={{ v }};{% endfor %}"),
    ("for nested tuple", "{% for a, (b, c) in [(1, (2, 3)), (4, (5, 6))] %}{{ a }}{{ b }}{{ c }} {% endfor %}"),
    ("for bad unpack", "{% for a, b in [(1, 2, 3)] %}{% endfor %}"),
    ("for unpack number", "{% for a, b in [1] %}{% endfor %}"),
    ("for unpack string", "{% for a, b in ['xy'] %}{{ b }}{{ a }}{% endfor %}"),
    ("for undefined", "{% for x in nosuch %}{{ x }}{% else %}none{% endfor %}"),
    ("for none", "{% for x in nil %}{{ x }}{% endfor %}"),
    ("for number", "{% for x in n %}{{ x }}{% endfor %}"),
    ("for range", "{% for i in range(3) %}{{ i }}{% endfor %}"),
    ("for tuple without brackets", "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}"),
    ("for with filter chain", "{% for x in users | selectattr('on') | map(attribute='name') %}{{ x }}/{{ loop.length }};{% endfor %}"),
    ("for condition", "{% for x in l if x != 1 %}{{ loop.index }}:{{ x }}/{{ loop.length }} {% endfor %}"),
    ("for condition outer loop", "{% for y in l %}{% for x in l if x != loop.index %}{{ x }}{% endfor %};{% endfor %}"),
    ("for inline if in iter", "{% for x in (l if t else []) %}{{ x }}{% endfor %}"),
    ("loop attributes", "{% for x in ls %}{{ loop.index }} {{ loop.index0 }} {{ loop.revindex }} {{ loop.revindex0 }} {{ loop.first }} {{ loop.last }} {{ loop.length }} {{ loop.depth }} {{ loop.depth0 }}\n{% endfor %}"),
    ("loop neighbours", "{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {{ loop.previtem is defined }} {{ loop.nextitem is defined }};{% endfor %}"),
    ("loop nextitem attribute", "{% for m in messages %}{{ m.role }}{% if not loop.last and loop.nextitem.role != 'user' %}!{% endif %} {% endfor %}"),
    ("loop previtem error", "{% for m in messages %}{{ loop.previtem.role }}{% endfor %}"),
    ("loop cycle", "{% for x in ls %}{{ loop.cycle('odd', 'even') }} {% endfor %}"),
    ("loop changed", "{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }} {% endfor %}"),
    ("loop subscripted", "{% for x in l %}{{ loop['index0'] }}{{ loop['first'] }}{% endfor %}"),
    ("loop unknown attribute", "{% for x in l %}[{{ loop.nosuch }}]{% endfor %}"),
    ("loop after", "{% for x in l %}{% endfor %}{{ loop is defined }}{{ x is defined }}"),
    ("loop nested", "{% for a in [1, 2] %}{% for b in 'xy' %}{{ loop.index }}{{ a }}{{ b }}{% endfor %}{{ loop.index }};{% endfor %}"),
    ("loop outer saved", "{% for a in [1, 2] %}{% set outer = loop %}{% for b in 'xy' %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}"),
    ("loop last of generator", "{% for x in l | map('string') %}{{ x }}{{ ',' if not loop.last }}{% endfor %}"),
    ("break", "{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}."),
    ("continue", "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}."),
    ("break inner only", "{% for a in l %}{% for b in l %}{% break %}{% endfor %}{{ a }}{% endfor %}"),
    ("break in set block", "{% for a in l %}{% set q %}x{% break %}{% endset %}y{% endfor %}z"),
    ("set", "{% set x = 1 %}{{ x }}{% set x = x + 1 %}{{ x }}"),
    ("set tuple", "{% set a, b = 1, 2 %}{{ a }}{{ b }}"),
    ("set parens", "{% set (a, b) = (1, 2) %}{{ a }}{{ b }}"),
    ("set makes tuple", "{% set a = 1, 2 %}{{ a }}"),
    ("set shadows context", "{% set n = 'x' %}{{ n }}"),
    ("set in if", "{% if t %}{% set x = 1 %}{% endif %}{{ x }}"),
    ("set in false if", "{% if no %}{% set x = 1 %}{% endif %}{{ x }}|{{ x is defined }}"),
    ("set in loop stays", "{% set x = 0 %}{% for i in l %}{% set x = x + i %}{{ x }},{% endfor %}{{ x }}"),
    ("set in loop new name", "{% for i in l %}{% set q = i %}{% endfor %}{{ q is defined }}"),
    ("set in loop per turn", "{% for i in l %}{{ q is defined }}{% set q = i %}{% endfor %}"),
    ("set hides context in loop", "{% for i in l %}{{ n }}{% set n = i %}{{ n }},{% endfor %}{{ n }}"),
    ("set block", "{% set x %}a{{ n }}b{% endset %}[{{ x }}]{{ x | length }}"),
    ("set block filter", "{% set x | upper | replace('A', 'q') %}a{{ s }}b{% endset %}{{ x }}"),
    ("set block scope", "{% set x %}{% set y = 1 %}{{ y }}{% endset %}{{ x }}{{ y is defined }}"),
    ("set block lines", "{% set x %}\n  a\n  b\n{% endset %}\n[{{ x }}]"),
    ("set none", "{% set x = none %}{{ x is none }}{{ x }}"),
    ("set reserved", "{% set true = 1 %}"),
    ("set loop", "{% for x in l %}{% set loop = 1 %}{% endfor %}"),
    ("set attribute of dict", "{% set d.x = 1 %}"),
    ("set attribute of undefined", "{% set nosuch.x = 1 %}"),
    ("namespace", "{% set ns = namespace(x=0, y='a') %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{{ ns.y }}"),
    ("namespace new attribute", "{% set ns = namespace() %}{% set ns.q = 1 %}{{ ns.q }}{{ ns.r is defined }}[{{ ns.r }}]"),
    ("namespace block set", "{% set ns = namespace() %}{% set ns.q %}abc{{ n }}{% endset %}{{ ns.q }}"),
    ("namespace tuple set", "{% set ns = namespace() %}{% set ns.a, ns.b = 1, 2 %}{{ ns.a }}{{ ns.b }}"),
    ("namespace in if in loop", "{% set ns = namespace(found=false) %}{% for x in l %}{% if x == 1 %}{% set ns.found = true %}{% break %}{% endif %}{% endfor %}{{ ns.found }}"),
    ("namespace in macro", "{% set ns = namespace(c=0) %}{% macro m() %}{% set ns.c = ns.c + 1 %}{% endmacro %}{{ m() }}{{ m() }}{{ ns.c }}"),
    ("namespace list growth", "{% set ns = namespace(v=[]) %}{% for x in l %}{% set ns.v = ns.v + [x * 2] %}{% endfor %}{{ ns.v }}"),
    ("macro", "{% macro m(a, b=2) %}[{{ a }}{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=4, a=5) }}{{ m(1, b=9) }}"),
    ("macro missing argument", "{% macro m(a) %}[{{ a }}]{{ a is defined }}{% endmacro %}{{ m() }}"),
    ("macro too many", "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}"),
    ("macro unknown keyword", "{% macro m(a) %}{% endmacro %}{{ m(1, z=2) }}"),
    ("macro both", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}"),
    ("macro default sees parameter", "{% macro m(a, b=a * 2) %}{{ a }}{{ b }}{% endmacro %}{{ m(3) }}"),
    ("macro varargs", "{% macro m(a) %}{{ a }}{{ varargs }}{% endmacro %}{{ m(1, 2, 3) }}{{ m(1) }}"),
    ("macro kwargs", "{% macro m(a) %}{{ a }}{{ kwargs }}{% endmacro %}{{ m(1, x=2, y=3) }}{{ m(1) }}"),
    ("macro recursion", "{% macro f(k) %}{{ k }}{% if k > 0 %}{{ f(k - 1) }}{% endif %}{% endmacro %}{{ f(3) }}"),
    ("macro scope", "{% set x = 1 %}{% macro m() %}{{ x }}{% set x = 5 %}{{ x }}{% endmacro %}{{ m() }}{{ x }}"),
    ("macro sees later value", "{% set x = 1 %}{% macro m() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ m() }}"),
    ("macro in loop", "{% macro m(x) %}<{{ x }}>{% endmacro %}{% for x in l %}{{ m(x) }}{% endfor %}"),
    ("macro loop is not visible", "{% macro m() %}{{ loop is defined }}{% endmacro %}{% for x in l %}{{ m() }}{% endfor %}"),
    ("macro result is text", "{% macro m() %} a {% endmacro %}{{ m() | trim ~ '!' }}{{ m() | length }}"),
    ("macro in expression", "{% macro m(x) %}{{ x }}{% endmacro %}{{ 'y' if m(1) == '1' else 'n' }}"),
    ("macro before definition", "{{ m() }}{% macro m() %}x{% endmacro %}"),
    ("macro white space", "{%- macro m(x) -%}\n  {{ x }}\n{%- endmacro -%}\n\n[{{ m(1) }}]"),
    ("macro as value", "{% macro m(x) %}{{ x }}!{% endmacro %}{% set f = m %}{{ f(1) }}{{ f is callable }}"),
    ("macro nested", "{% macro a(x) %}{% macro b(y) %}{{ x }}{{ y }}{% endmacro %}{{ b(2) }}{% endmacro %}{{ a(1) }}"),
    ("macro duplicate parameter", "{% macro m(a, a) %}{% endmacro %}"),
    ("macro default order", "{% macro m(a=1, b) %}{% endmacro %}"),
    ("macro unpacked arguments", "{% macro m(a, b, c=0) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(1, **{'b': 5, 'c': 6}) }}"),
    ("call", "{% macro m(t) %}<{{ t }}>{{ caller() }}</{{ t }}>{% endmacro %}{% call m('a') %}in{{ n }}{% endcall %}"),
    ("call with arguments", "{% macro m() %}{% for x in l %}{{ caller(x, loop.index) }}{% endfor %}{% endmacro %}{% call(a, b) m() %}{{ a }}/{{ b }} {% endcall %}"),
    ("caller undefined", "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}"),
    ("call without caller", "{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}"),
    ("filter block", "{% filter upper | replace('A', '4') %}abc {{ s }}{% endfilter %}"),
    ("with", "{% set x = 1 %}{% with x = 2, y = x %}{{ x }}{{ y }}{% endwith %}{{ x }}"),
    ("with empty", "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q is defined }}"),
    ("generation", "a{% generation %}b{{ n }}{% endgeneration %}c"),
    ("generation white space", "a\n  {% generation %}\n  b\n  {%- endgeneration %}\nc"),
    ("generation in loop", "{% for m in messages %}{% generation %}{{ loop.index }}{{ m.content }}{% set z = 1 %}{% endgeneration %}{{ z }}{% endfor %}"),
    ("generation break", "{% for m in messages %}{% generation %}{% break %}{% endgeneration %}{% endfor %}"),
    ("one-shot iterator", "{% set g = l | map('string') %}{% for x in g %}{{ x }}{% endfor %}-{% for x in g %}{{ x }}{% endfor %}"),
    ("one-shot first then rest", "{% set g = l | map('string') %}{{ g | first }}{{ g | list }}"),
    ("one-shot in", "{% set g = l | map('string') %}{{ '1' in g }}{{ g | list }}"),
    ("one-shot length", "{{ l | map('string') | length }}"),
    ("one-shot truth", "{{ 'yes' if none_list | map('string') else 'no' }}"),
    ("reverse truth", "{{ 'yes' if none_list | reverse else 'no' }}"),
    ("reverse loop", "{% for m in messages | reverse %}{{ loop.index }}{{ m.role }} {% endfor %}"),
    ("reverse slice loop", "{% for m in messages[::-1] %}{% set index = (messages | length - 1) - loop.index0 %}{{ index }}{{ m.role }} {% endfor %}"),
    ("dict view live", "{% set v = d.items() %}{% for k, x in v %}{{ k }}{% endfor %}{% for k, x in v %}{{ x }}{% endfor %}"),
    ("inline raise", "{{ raise_exception('no: ' ~ n) }}"),
    ("raise not reached", "{% if no %}{{ raise_exception('x') }}{% endif %}ok"),
    ("unknown tag", "{% nosuch %}"),
    ("unclosed if", "{% if t %}x"),
    ("unclosed variable", "{{ n "),
    ("unclosed string", "{{ 'abc }}"),
    ("stray endfor", "{% endfor %}"),
    ("mismatched", "{% if t %}{% endfor %}"),
    ("bad bracket", "{{ (1] }}"),
    ("empty expression", "{{ }}"),
    ("two expressions", "{{ n n }}"),
    ("assignment in expression", "{{ n = 1 }}"),
    ("dangling operator", "{{ 1 + }}"),
    ("bad attribute", "{{ s. }}"),
    ("bad for", "{% for in l %}{% endfor %}"),
    ("keyword before positional", "{{ dict(a=1, 2) }}"),
    ("chained tests", "{{ n is number is odd }}"),
    ("leading zero number", "{{ 007 }}"),
    ("filter with test precedence", "{{ 'a' if l | length is gt 2 else 'b' }}"),
    ("unary after power", "{{ 2 ** -1 }}{{ -2 ** 2 }}"),
    ("not in condition", "{% if 'x' not in s and not no %}y{% endif %}"),
    ("comparison with filter", "{% if messages | length > 2 and messages[0].role == 'system' %}y{% endif %}"),
    ("string concat in loop", "{% set ns = namespace(t='') %}{% for m in messages %}{% set ns.t = ns.t + m.role + ': ' + m.content + '\\n' %}{% endfor %}{{ ns.t }}"),
    ("strip then test", "{% if sp.strip() %}[{{ sp.strip() }}]{% endif %}"),
    ("print tuple", "{{ 1, 'a' }}"),
    ("global shadowed by set", "{% set range = 5 %}{{ range }}"),
    ("attribute of call", "{{ dict(a={'b': 1}).a.b }}"),
    ("method on literal", "{{ ','.join(['a', 'b']) }}{{ [1, 2].index(2) }}{{ {'a': 1}.items() | list }}"),
    ("conditional attribute chain", "{{ users[0].name if users[0].name is defined and users[0].name else 'x' }}"),
    ("deep undefined", "{{ d.zz.yy is defined }}"),
    ("undefined test first", "{{ d.zz is defined and d.zz.yy is defined }}"),
    ("comment between", "{% if t %}{# c #}\n{# d #}x{% endif %}"),
    ("blank lines kept", "a\n\n\n{% if t %}\n\n\nb{% endif %}\n\n\n"),
    ("tabs before block", "a\n\t\t{% if t %}b{% endif %}"),
    ("first line lstrip", "   {% if t %}b{% endif %}"),
    ("after variable no lstrip", "{{ n }}   {% if t %}b{% endif %}"),
    ("after comment at line start", "{# c #}   {% if t %}b{% endif %}"),
    ("after block newline then lstrip", "{% if t %}\n   {% if t %}b{% endif %}{% endif %}"),
    ("minus in expression", "{{ n -1 }}{{ n - 1 }}{{ n-1 }}"),
    ("percent in expression", "{{ n %2 }}{{ 10 % 4 }}"),
    ("multi-line expression", "{{ [\n  1,\n  2\n] | join(\n  '-'\n) }}"),
    ("multi-line set", "{% set x = {\n  'a': 1,\n  'b': [1, 2],\n} %}{{ x }}"),
    ("line join of strings", "{{ 'a' \n 'b' }}"),
    ("attr with space", "{{ d . a }}{{ d ['a'] }}{{ s . upper ( ) }}"),
    ("float then dot", "{{ 1.5.foo }}"),
    ("int attribute", "{{ l.0 }}{{ l.2 }}"),
    ("number then name", "{{ 1if t else 2 }}"),
]

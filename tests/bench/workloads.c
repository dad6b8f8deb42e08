/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/bench/workloads.h"

#include <stdarg.h>

enum
{
  N_FUNCTIONS = 600,
  TEXT_BYTES = 3 << 20,
};

static void
workload_clear (gpointer data)
{
  Workload *self = data;

  g_strfreev (self->argv);
  g_free (self->why_not);
}

/* @program: a name to be found in PATH, or a path; the arguments behind it end with NULL. */
static void G_GNUC_NULL_TERMINATED
add (GArray *list, const char *name, const char *program, ...)
{
  Workload workload = { .name = name };
  g_autoptr (GPtrArray) argv = g_ptr_array_new ();
  char *path = g_find_program_in_path (program);
  va_list args;

  if (path == NULL)
    {
      workload.why_not = g_strdup_printf ("%s is not installed", program);
      g_array_append_val (list, workload);
      return;
    }
  g_ptr_array_add (argv, path);
  va_start (args, program);
  for (const char *arg = va_arg (args, const char *); arg != NULL;
       arg = va_arg (args, const char *))
    g_ptr_array_add (argv, g_strdup (arg));
  va_end (args);
  g_ptr_array_add (argv, NULL);
  workload.argv = (char **) g_ptr_array_steal (argv, NULL);
  g_array_append_val (list, workload);
}

static void
add_own (GArray *list, const char *name, const char *programs, const char *program)
{
  g_autofree char *path = g_build_filename (programs, program, NULL);

  add (list, name, path, "1000000", NULL);
}

#define PYTHON_SCRIPT                                                                              \
  "import json, re, ast\n"                                                                         \
  "data = {'k%d' % i: [i, str(i), {'a': i / 3, 'b': None}] for i in range(2000)}\n"                \
  "source = '\\n'.join('def f%d(a, b): return (a + %d) * b' % (i, i) for i in range(200))\n"       \
  "word = re.compile(r'(\\w+)\\s*(?:\\(|:)[^)]*')\n"                                               \
  "def deep(n): return json.loads(json.dumps(data, indent=1)) if n == 0 else deep(n - 1)\n"        \
  "for i in range(1000):\n"                                                                        \
  "    deep(i % 12)\n"                                                                             \
  "    json.dumps(data)\n"                                                                         \
  "    word.findall(source)\n"                                                                     \
  "    sorted(data, key=lambda k: (len(k), k))\n"                                                  \
  "    ast.dump(ast.parse(source))\n"

#define SQL_SCRIPT                                                                                 \
  "create table t (a integer primary key, b text, c real);"                                        \
  "with recursive n(i) as (select 1 union all select i + 1 from n where i < 200000)"               \
  " insert into t select i, 'row ' || (i * 7919 % 100003), i / 3.0 from n;"                        \
  "create index t_b on t (b);"                                                                     \
  "with recursive n(i) as (select 1 union all select i + 1 from n where i < 50)"                   \
  " select i, (select count(*) from t x join t y on x.b = y.b where x.c > i and y.a % 50 = i),"    \
  " (select sum(length(b)) from (select b from t where b like '%' || i || '%' order by c desc))"   \
  " from n;"

/* Four processes a turn, each twice: before and after exec. libdwfl's unwinder keeps the state of
 * 512: with more of them than that we would measure how it makes them. */
#define SHELL_SCRIPT                                                                               \
  "i=0; while [ $i -lt 60 ]; do i=$((i + 1));"                                                     \
  " /bin/sh -c 'i=0; while [ $i -lt 1500 ]; do i=$((i + 1)); case $i in *7*) x=$x$i;; esac; done;" \
  " ls -l /usr/bin | sort -k 9 | head -n 5'; done"

/* Text that packs, but not too well. */
static char *
write_text (const char *scratch)
{
  g_autoptr (GString) text = g_string_new (NULL);
  g_autofree char *path = g_build_filename (scratch, "generated.txt", NULL);
  g_autoptr (GError) error = NULL;
  guint32 seed = 1;

  while (text->len < TEXT_BYTES)
    {
      seed = seed * 1664525 + 1013904223;
      g_string_append_printf (text, "%u %x\n", seed >> 16, (seed >> 20) * 77);
    }
  if (!g_file_set_contents (path, text->str, (gssize) text->len, &error))
    g_error ("%s", error->message);

  return g_steal_pointer (&path);
}

static char *
write_source (const char *scratch)
{
  g_autoptr (GString) text = g_string_new ("#include <stdlib.h>\n#include <string.h>\n");
  char *path = g_build_filename (scratch, "generated.c", NULL);
  g_autoptr (GError) error = NULL;

  for (unsigned i = 0; i < N_FUNCTIONS; i++)
    g_string_append_printf (
        text,
        "struct s%1$u { int n; double v[%2$u]; char name[16]; };\n"
        "static int g%1$u (struct s%1$u *s, int k) {\n"
        "  double sum = 0;\n"
        "  for (int i = 0; i < s->n && i < %2$u; i++)\n"
        "    switch ((i + k) %% 5) {\n"
        "      case 0: sum += s->v[i] * k; break;\n"
        "      case 1: sum -= s->v[i] / (k + 1); break;\n"
        "      case 2: if (sum > %1$u) return k; /* fall through */\n"
        "      default: sum = sum * sum + i;\n"
        "    }\n"
        "  return (int) sum + (int) strlen (s->name);\n"
        "}\n"
        "int f%1$u (int k) {\n"
        "  struct s%1$u s; memset (&s, k, sizeof s); s.n = k %% %2$u; s.name[15] = 0;\n"
        "  for (int i = 0; i < k; i++) s.v[i %% %2$u] = (double) (i * k) / (g%1$u (&s, i) | 1);\n"
        "  return g%1$u (&s, k);\n"
        "}\n",
        i, 4 + i % 13);
  if (!g_file_set_contents (path, text->str, (gssize) text->len, &error))
    g_error ("%s", error->message);

  return path;
}

GArray *
workloads_new (const char *programs, const char *scratch)
{
  GArray *list = g_array_new (FALSE, FALSE, sizeof (Workload));
  g_autofree char *source = write_source (scratch);
  g_autofree char *text = write_text (scratch);
  g_autofree char *object = g_build_filename (scratch, "generated.o", NULL);

  g_array_set_clear_func (list, workload_clear);
  add_own (list, "deep", programs, "bench-deep");
  add (list, "python3", "/usr/bin/python3", "-E", "-c", PYTHON_SCRIPT, NULL);
  add (list, "sqlite3", "sqlite3", ":memory:", SQL_SCRIPT, NULL);
  add (list, "xz", "xz", "-9", "--stdout", "--keep", text, NULL);
  add (list, "compiler", "cc", "-O2", "-w", "-c", source, "-o", object, NULL);
  add (list, "shells", "/bin/sh", "-c", SHELL_SCRIPT, NULL);
  add_own (list, "signals", programs, "bench-signals");

  return list;
}

/*
 * A flame graph as an SVG file. See profile.h.
 *
 * The file contains its style and a script of its own, and loads nothing. Without a script, the
 * graph is complete, and titles show the values. With a script, a click or the return key on a box
 * zooms into it, and the escape key or a click on the outermost box zooms out. Boxes can be reached
 * with the tab key. The colours follow the setting of the viewer, light or dark.
 */
#include "command/profile/profile.h"

#include "command/inspect/utf8.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 1200.0
#define ROW_HEIGHT 18
#define TOP_HEIGHT 48
/* Boxes with less width are not drawn. */
#define BOX_WIDTH_MIN 0.3
/* The width of a character, for cut names. */
#define CHARACTER_WIDTH 7.0
#define DEPTH_MAX 130

/* A box: calls with the same callers. Children are linked by their next fields. */
typedef struct flame_box {
    const char *name;
    uint64_t value;
    struct flame_box *first, *next;
} flame_box;

static void box_free(flame_box *b)
{
    while (b != NULL) {
        flame_box *next = b->next;
        box_free(b->first);
        free(b);
        b = next;
    }
}

/* Return the child of a name. Return NULL if memory is exhausted. */
static flame_box *box_child(flame_box *b, const char *name)
{
    flame_box **at = &b->first;
    while (*at != NULL && strcmp((*at)->name, name) != 0)
        at = &(*at)->next;
    if (*at == NULL && (*at = calloc(1, sizeof **at)) != NULL)
        (*at)->name = name;
    return *at;
}

static bool boxes_add(flame_box *root, const profile_stack *s)
{
    flame_box *b = root;
    root->value += s->value;
    for (size_t i = 0; i < s->count && i < DEPTH_MAX; i++) {
        b = box_child(b, s->names[i]);
        if (b == NULL)
            return false;
        b->value += s->value;
    }
    return true;
}

static unsigned box_depth(const flame_box *b)
{
    unsigned deepest = 0;
    for (const flame_box *child = b->first; child != NULL; child = child->next) {
        unsigned depth = box_depth(child);
        deepest = depth > deepest ? depth : deepest;
    }
    return deepest + 1;
}

static void write_character(const char *text, size_t length, uint32_t c, FILE *out)
{
    if (c == '<')
        fputs("&lt;", out);
    else if (c == '>')
        fputs("&gt;", out);
    else if (c == '&')
        fputs("&amp;", out);
    else if (c == '"')
        fputs("&quot;", out);
    else
        fwrite(text, 1, length, out);
}

/*
 * Write the first characters of a text, with the escapes of XML. Characters that XML forbids, and
 * control characters, become "?".
 */
static void write_text(const char *text, size_t characters_max, FILE *out)
{
    uint32_t c;
    for (; *text != '\0' && characters_max > 0; characters_max--) {
        size_t length = weft__utf8_decode(text, &c);
        bool is_forbidden =
            length == 0 || c < ' ' || (c >= 0x7f && c < 0xa0) || c == 0xfffe || c == 0xffff;
        if (is_forbidden)
            fputc('?', out);
        else
            write_character(text, length, c, out);
        text += length > 0 ? length : 1;
    }
}

static void write_value(const profile_data *p, bool is_wait, uint64_t value, uint64_t all,
                        FILE *out)
{
    double seconds = is_wait ? (double)value / 1e6 : (double)value / (p->hz > 0 ? p->hz : 1);
    fprintf(out, "%.3f s, %.1f%%", seconds, all > 0 ? 100 * (double)value / (double)all : 0);
}

/* A warm hue for CPU time and a cold hue for waits, from the name, so that it is stable. */
static unsigned box_hue(const char *name, bool is_wait)
{
    unsigned hash = 0;
    for (; *name != '\0'; name++)
        hash = hash * 31 + (unsigned char)*name;
    return (is_wait ? 190 : 0) + hash % 55;
}

typedef struct svg_writer {
    const profile_data *profile;
    bool is_wait;
    uint64_t all;
    FILE *out;
} svg_writer;

static void write_box(const svg_writer *w, const flame_box *b, double x, unsigned depth)
{
    double width = WIDTH * (double)b->value / (double)w->all;
    unsigned y = TOP_HEIGHT + depth * ROW_HEIGHT;
    if (width < BOX_WIDTH_MIN)
        return;
    fprintf(w->out,
            "<g class=\"b\" tabindex=\"0\" role=\"img\" data-x=\"%.3f\" data-w=\"%.3f\" "
            "data-d=\"%u\" data-n=\"",
            x, width, depth);
    write_text(b->name, SIZE_MAX, w->out);
    fputs("\"><title>", w->out);
    write_text(b->name, SIZE_MAX, w->out);
    fputs(" (", w->out);
    write_value(w->profile, w->is_wait, b->value, w->all, w->out);
    fprintf(w->out,
            ")</title><rect x=\"%.3f\" y=\"%u\" width=\"%.3f\" height=\"%d\" rx=\"2\" "
            "style=\"--h:%u\"/><text x=\"%.3f\" y=\"%u\">",
            x, y, width, ROW_HEIGHT - 1, box_hue(b->name, w->is_wait), x + 3, y + 13);
    if (width > 3 * CHARACTER_WIDTH)
        write_text(b->name, (size_t)(width / CHARACTER_WIDTH), w->out);
    fputs("</text></g>\n", w->out);
    for (const flame_box *child = b->first; child != NULL; child = child->next) {
        write_box(w, child, x, depth + 1);
        x += WIDTH * (double)child->value / (double)w->all;
    }
}

static const char svg_style[] =
    "<style>"
    "svg{background:#fff;color:#222;font:12px ui-monospace,monospace;--l:75%}"
    "text{fill:currentColor;pointer-events:none}"
    ".b{cursor:pointer}"
    ".b rect{fill:hsl(var(--h) 75% var(--l))}"
    ".b:hover rect,.b:focus-visible rect{stroke:currentColor;stroke-width:1.5}"
    ".b:focus{outline:none}"
    ".h{font-size:16px}"
    "@media(prefers-color-scheme:dark){svg{background:#16181c;color:#eee;--l:30%}}"
    "</style>\n";

/* Zoom: the boxes above and below a box are scaled, and all others are hidden. */
static const char svg_script[] =
    "<script><![CDATA[\n"
    "(function(){\n"
    "var W=1200,boxes=[].slice.call(document.querySelectorAll('.b'));\n"
    "function num(b,k){return parseFloat(b.getAttribute('data-'+k));}\n"
    "function zoom(to){\n"
    "  var x0=num(to,'x'),w0=num(to,'w'),d0=num(to,'d');\n"
    "  boxes.forEach(function(b){\n"
    "    var x=num(b,'x'),w=num(b,'w'),d=num(b,'d');\n"
    "    var above=d<d0&&x<=x0+0.01&&x+w>=x0+w0-0.01;\n"
    "    var inside=d>=d0&&x>=x0-0.01&&x+w<=x0+w0+0.01;\n"
    "    b.style.display=above||inside?'':'none';\n"
    "    var nx=above?0:(x-x0)/w0*W,nw=above?W:w/w0*W;\n"
    "    var r=b.querySelector('rect'),t=b.querySelector('text'),n=b.getAttribute('data-n');\n"
    "    r.setAttribute('x',nx);r.setAttribute('width',Math.max(nw,0));\n"
    "    t.setAttribute('x',nx+3);t.textContent=nw>21?n.slice(0,Math.floor(nw/7)):'';\n"
    "  });\n"
    "}\n"
    "boxes.forEach(function(b){\n"
    "  b.addEventListener('click',function(){zoom(b);});\n"
    "  b.addEventListener('keydown',function(e){\n"
    "    if(e.key==='Enter'||e.key===' '){zoom(b);e.preventDefault();}\n"
    "  });\n"
    "});\n"
    "document.addEventListener('keydown',function(e){if(e.key==='Escape')zoom(boxes[0]);});\n"
    "})();\n"
    "]]></script>\n";

static void write_head(const svg_writer *w, unsigned depth)
{
    const profile_data *p = w->profile;
    unsigned height = TOP_HEIGHT + depth * ROW_HEIGHT + 8;
    fprintf(w->out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %u\" width=\"%g\" "
            "height=\"%u\" role=\"group\" aria-label=\"Flame graph\">\n%s",
            WIDTH, height, WIDTH, height, svg_style);
    fprintf(w->out, "<text class=\"h\" x=\"6\" y=\"20\">%s of ", w->is_wait ? "Waits" : "CPU time");
    write_text(p->program, SIZE_MAX, w->out);
    fprintf(w->out,
            " (%d), %.1f s</text>\n<text x=\"6\" y=\"38\">Each box is a cord, a fiber or a "
            "function. Its width is its share. Click or press return to zoom, escape to zoom "
            "out.</text>\n",
            p->pid, p->seconds);
}

bool weft__profile_write_svg(const profile_data *p, bool is_wait, FILE *out)
{
    flame_box root = {.name = "all"};
    bool is_good = true;
    for (size_t i = 0; i < p->count && is_good; i++)
        if (p->stacks[i].is_wait == is_wait)
            is_good = boxes_add(&root, &p->stacks[i]);
    svg_writer w = {p, is_wait, root.value > 0 ? root.value : 1, out};
    if (is_good) {
        write_head(&w, box_depth(&root));
        if (root.value > 0)
            write_box(&w, &root, 0, 0);
        fprintf(out, "%s</svg>\n", root.value > 0 ? svg_script : "");
    }
    box_free(root.first);
    return is_good && fflush(out) == 0 && !ferror(out);
}

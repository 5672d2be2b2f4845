"""SVG drawings: shapes on a white background, so that they are readable on any page."""

from xml.sax.saxutils import escape

INK, SOFT, FAINT, GRID, GROUND = "#1f2328", "#59636e", "#9aa3ad", "#e4e8ec", "#ffffff"
WEFT, RIVAL, LIMIT = "#0b7a75", "#c2410c", "#7c6f9c"
# The average width of a sans-serif letter, relative to its size.
LETTER = 0.54


def width_of(text, size):
    return len(text) * size * LETTER


class Drawing:
    """Shapes that to_text converts to a document."""

    def __init__(self, width, height, title):
        self.width, self.height, self.title = width, height, title
        self.parts = []

    def add(self, name, text=None, **attributes):
        pairs = "".join(' %s="%s"' % (key.replace("_", "-"), show(value)) for key, value in attributes.items())
        self.parts.append("<%s%s/>" % (name, pairs) if text is None else
                          "<%s%s>%s</%s>" % (name, pairs, escape(text), name))

    def line(self, x1, y1, x2, y2, stroke=GRID, width=1, **more):
        self.add("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=stroke, stroke_width=width, **more)

    def dot(self, x, y, r, fill, **more):
        self.add("circle", cx=x, cy=y, r=r, fill=fill, **more)

    def diamond(self, x, y, r, fill, stroke):
        points = " ".join("%.1f,%.1f" % p for p in ((x, y - r), (x + r, y), (x, y + r), (x - r, y)))
        self.add("polygon", points=points, fill=fill, stroke=stroke, stroke_width=1.5)

    def arrow(self, x, y, length, fill):
        """Draw an arrow with its base at x. A negative length points to the left."""
        points = " ".join("%.1f,%.1f" % p for p in ((x, y - 4), (x + length, y), (x, y + 4)))
        self.add("polygon", points=points, fill=fill)

    def path(self, points, stroke, width, dashes="none"):
        self.add("polyline", points=" ".join("%.1f,%.1f" % p for p in points), fill="none", stroke=stroke,
                 stroke_width=width, stroke_linejoin="round", stroke_linecap="round", stroke_dasharray=dashes)

    def text(self, x, y, text, size=12, fill=INK, anchor="start", weight="normal", **more):
        self.add("text", text, x=x, y=y, font_size=size, fill=fill, text_anchor=anchor, font_weight=weight, **more)

    def to_text(self):
        head = ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" '
                'font-family="Inter, \'Helvetica Neue\', Arial, \'DejaVu Sans\', sans-serif">' %
                (self.width, self.height, self.width, self.height))
        ground = '<rect width="%d" height="%d" rx="6" fill="%s"/>' % (self.width, self.height, GROUND)
        return "\n".join([head, "<title>%s</title>" % escape(self.title), ground] + self.parts + ["</svg>", ""])


def show(value):
    return "%.1f" % value if isinstance(value, float) else str(value)

